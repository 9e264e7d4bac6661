import StalecastWire

/// Checks one of `edge.allowedOrigins`: `*`, or an origin spelled as browsers send it, since it is compared byte for
/// byte (RFC 6454 §6.2: lower case, no default port, no path). Returns `text`.
func checkedOrigin(_ text: String) throws(InvalidValue) -> String {
    if text == "*" { return text }
    guard let separator = text.firstRange(of: "://"), isScheme(text[..<separator.lowerBound]) else {
        throw InvalidValue("\"\(text)\" is no origin; write SCHEME://HOST[:PORT], such as https://a.example, or *")
    }
    let authority = text[separator.upperBound...]
    if authority.contains(where: { "/?#@".contains($0) }) {
        throw InvalidValue("\"\(text)\" has more than scheme, host and port; browsers send no more, not even a slash")
    }
    if text != text.lowercased() { throw InvalidValue("\"\(text)\" must be in lower case, as browsers send it") }
    try checkAuthority(authority, of: text)
    if text.hasPrefix("https://") && text.hasSuffix(":443") || text.hasPrefix("http://") && text.hasSuffix(":80") {
        throw InvalidValue("\"\(text)\" names the default port, which browsers leave out; remove it")
    }
    return text
}

private func isScheme(_ text: Substring) -> Bool {
    guard let first = text.utf8.first, first.isASCIIAlphanumeric else { return false }
    return text.utf8.allSatisfy { $0.isASCIIAlphanumeric || "+-.".utf8.contains($0) }
}

/// Lets `ListenAddress` check host and port; an origin without port borrows one for that.
private func checkAuthority(_ authority: Substring, of text: String) throws(InvalidValue) {
    let afterHost = authority.lastIndex(of: "]").map { authority[$0...] } ?? authority
    do {
        _ = try ListenAddress(parsing: afterHost.contains(":") ? String(authority) : "\(authority):1")
    } catch {
        throw InvalidValue("\"\(text)\" is no origin: \(error)")
    }
}

/// A key that apps show. Its description does not tell it, so that messages which quote values stay silent.
package struct APIKey: Sendable, Hashable, CustomStringConvertible {
    let text: String

    package var description: String { "this API key" }

    /// - Throws: a sentence without the text, which may be a key but for a slip.
    init(parsing text: String) throws(InvalidValue) {
        guard text.isWord(1...128, and: "-_") else {
            throw InvalidValue("an API key has 1 to 128 characters of A-Z a-z 0-9 - _")
        }
        self.text = text
    }
}
