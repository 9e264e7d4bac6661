package import StalecastWire

/// A webhook's id, `wh_` and 20 characters of lower-case base32 (100 bits). Random for webhooks made through the API;
/// a function of project and name for those of the configuration file, so that their cursors survive restarts.
package struct WebhookID: Hashable, Sendable, CustomStringConvertible, Comparable {
    package let description: String

    private static let prefix = "wh_"
    private static let length = 20
    private static let alphabet = Array("abcdefghijklmnopqrstuvwxyz234567".utf8)

    private init(known: String) { description = known }

    /// nil unless `text` is exactly what ``description`` prints.
    package init?(_ text: some StringProtocol) {
        guard text.hasPrefix(Self.prefix), text.utf8.count == Self.prefix.utf8.count + Self.length,
            text.utf8.dropFirst(Self.prefix.utf8.count).allSatisfy(Self.alphabet.contains)
        else { return nil }
        description = String(text)
    }

    /// A new id from `generator`.
    package static func random(using generator: inout some RandomNumberGenerator) -> WebhookID {
        let letters = (0..<length).map { _ in alphabet[Int(generator.next() & 31)] }
        return WebhookID(known: prefix + String(decoding: letters, as: UTF8.self))
    }

    /// A new id from the system's secure generator.
    package static func random() -> WebhookID {
        var generator = SystemRandomNumberGenerator()
        return random(using: &generator)
    }

    /// The id of the webhook that the configuration file calls `name`.
    package static func configured(_ name: String, project: ProjectID) -> WebhookID {
        let token = Base32.token(of: "stalecast/webhook", project.description, name, length: length)
        return WebhookID(known: prefix + token)
    }

    package static func < (a: Self, b: Self) -> Bool { a.description < b.description }
}
