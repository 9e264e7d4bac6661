package import StalecastWire

/// A webhook's id, `wh_` and 20 characters of lower-case base32 (100 bits). Random for webhooks made through the API;
/// a function of project and name for those of the configuration file, so that their cursors survive restarts.
///
/// A number, because every delivery looks its webhook up several times: a text would be hashed and counted each time.
package struct WebhookID: Hashable, Sendable, CustomStringConvertible, Comparable {
    /// The first 12 characters and the last 8, five bits each, so that ids sort as their texts do.
    private var first: UInt64 = 0
    private var last: UInt64 = 0

    private static let prefix = "wh_"
    private static let length = 20
    private static let lengthOfFirst = 12
    private static let alphabet = Array("abcdefghijklmnopqrstuvwxyz234567".utf8)
    /// Bytes of ``description``.
    static let textLength = 23

    private init?(letters: some Sequence<UInt8>) {
        for (index, letter) in letters.enumerated() {
            let value: UInt8
            switch letter {
            case UInt8(ascii: "2")...UInt8(ascii: "7"): value = letter - UInt8(ascii: "2")
            case UInt8(ascii: "a")...UInt8(ascii: "z"): value = letter - UInt8(ascii: "a") + 6
            default: return nil
            }
            if index < Self.lengthOfFirst {
                first = first << 5 | UInt64(value)
            } else {
                last = last << 5 | UInt64(value)
            }
        }
    }

    /// nil unless `text` is exactly what ``description`` prints.
    package init?(_ text: some StringProtocol) {
        guard text.hasPrefix(Self.prefix), text.utf8.count == Self.textLength else { return nil }
        self.init(letters: text.utf8.dropFirst(Self.prefix.utf8.count))
    }

    package static func random(using generator: inout some RandomNumberGenerator) -> WebhookID {
        made(of: (0..<length).map { _ in alphabet[Int(generator.next() & 31)] })
    }

    package static func random() -> WebhookID {
        var generator = SystemRandomNumberGenerator()
        return random(using: &generator)
    }

    /// The id of the webhook that the configuration file calls `name`.
    package static func configured(_ name: String, project: ProjectID) -> WebhookID {
        made(of: Base32.token(of: "stalecast/webhook", project.description, name, length: length).utf8)
    }

    private static func made(of letters: some Sequence<UInt8>) -> WebhookID {
        guard let id = WebhookID(letters: letters) else { preconditionFailure("these are letters of base32") }
        return id
    }

    package var description: String {
        String(unsafeUninitializedCapacity: Self.textLength) { write(to: UnsafeMutableRawBufferPointer($0)) }
    }

    /// Writes ``description`` to the first ``textLength`` bytes of `room`.
    ///
    /// - Returns: the number of bytes.
    @discardableResult func write(to room: UnsafeMutableRawBufferPointer) -> Int {
        room.copyBytes(from: Self.prefix.utf8)
        let start = Self.textLength - Self.length
        for index in 0..<Self.length {
            let (part, left) =
                index < Self.lengthOfFirst
                ? (first, Self.lengthOfFirst - 1 - index) : (last, Self.length - 1 - index)
            let value = UInt8(truncatingIfNeeded: part >> UInt64(5 * left)) & 31
            room[start + index] = value < 6 ? UInt8(ascii: "2") + value : UInt8(ascii: "a") + value - 6
        }
        return Self.textLength
    }

    package static func < (a: Self, b: Self) -> Bool { (a.first, a.last) < (b.first, b.last) }
}
