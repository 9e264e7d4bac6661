/// Kinds of clients and their libraries, each pair once.
struct LabelList {
    struct Label: Hashable {
        var app = ""
        var sdk = ""
    }

    private var labels = NumberedValues(Label())

    subscript(_ number: UInt16) -> Label { labels[number] }

    /// - Parameter known: what the client said before; a word that it leaves out now stays.
    /// - Returns: nil where there is no room for a new pair.
    mutating func number(of client: ClientIdentity, over known: UInt16) -> UInt16? {
        if client.app.isEmpty, client.sdk.isEmpty { return known }
        let before = labels[known]
        // Most clients say at each fetch what they said before.
        if client.app == before.app, client.sdk == before.sdk { return known }
        return labels.number(
            of: Label(
                app: client.app.isEmpty ? before.app : client.app, sdk: client.sdk.isEmpty ? before.sdk : client.sdk))
    }

    /// See ``NumberedValues/keep(_:)``.
    mutating func keep(_ used: Set<UInt16>) -> [UInt16] { labels.keep(used) }
}
