/// What clients are and speak with, each pair once. Beyond 4,096 pairs a new one is not kept.
struct LabelList {
    private(set) var pairs: [(app: String, sdk: String)] = [("", "")]
    private var numbers: [String: UInt16] = ["\u{0}": 0]

    /// - Parameter known: what the client said before; a word that it leaves out now stays.
    mutating func number(of client: ClientIdentity, over known: UInt16) -> UInt16 {
        if client.app.isEmpty, client.sdk.isEmpty { return known }
        let before = pairs[Int(known)]
        // Most clients say at each fetch what they said before.
        if client.app == before.app, client.sdk == before.sdk { return known }
        let app = client.app.isEmpty ? before.app : client.app
        let sdk = client.sdk.isEmpty ? before.sdk : client.sdk
        let pair = "\(app)\u{0}\(sdk)"
        if let number = numbers[pair] { return number }
        guard pairs.count < 4096 else { return 0 }
        numbers[pair] = UInt16(pairs.count)
        pairs.append((app, sdk))
        return UInt16(pairs.count - 1)
    }
}
