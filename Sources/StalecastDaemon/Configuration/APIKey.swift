import StalecastWire

/// A key that apps show. Its description does not tell it, so that messages which quote values stay silent.
package struct APIKey: Sendable, Hashable, CustomStringConvertible {
    let text: String

    package var description: String { "this API key" }

    /// - Throws: a sentence without the text, which may be a key but for a slip.
    init(parsing text: String) throws(InvalidValue) {
        let isLegal = text.utf8.allSatisfy { $0.isASCIIAlphanumeric || "-_".utf8.contains($0) }
        guard isLegal, (1...128).contains(text.utf8.count) else {
            throw InvalidValue("an API key has 1 to 128 characters of A-Z a-z 0-9 - _")
        }
        self.text = text
    }
}
