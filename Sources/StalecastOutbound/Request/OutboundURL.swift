import CCurl
package import StalecastWire

/// An http or https URL as libcurl's own parser reads it, so that what is checked is what is dialled.
package struct OutboundURL: Sendable, Hashable, CustomStringConvertible {
    private let storage: Storage

    /// Text as libcurl normalises it.
    package var text: String { storage.text }
    /// `http` or `https`.
    package var scheme: String { storage.scheme }
    /// Lower case; an IPv6 address without its brackets; other spellings of IPv4 addresses as dotted decimal.
    package var host: String { storage.host }
    /// Given, or the scheme's.
    package var port: Int { storage.port }
    /// Path with its query; at least `/`.
    package var path: String { storage.path }
    /// The address when the host is one, also in a spelling that only inet_aton takes (`0x7f.1`, `2130706433`).
    package var addressLiteral: IPAddress? { storage.addressLiteral }
    /// False for an address, and for the names that libcurl knows for loopback itself.
    var needsLookup: Bool { addressLiteral == nil && host != "localhost" && !host.hasSuffix(".localhost") }
    /// Text for logs and for readers other than its owner: keys and tokens are often in the query.
    package var withoutQuery: String { String(text.prefix { $0 != "?" }) }
    /// Number that is the same for all URLs of one host and port; not negative.
    var spread: Int { storage.spread }

    /// The longest URL taken, in bytes.
    package static let maxBytes = 2048

    /// - Parameter maxBytes: the longest text taken.
    /// - Throws: ``OutboundURL/Invalid`` that says what is wrong: another scheme, a user name, a fragment, a zone, no
    ///   host, control characters or blanks, more than 2,048 bytes.
    package init(_ text: String, maxBytes: Int = Self.maxBytes) throws(Invalid) {
        guard text.utf8.count <= maxBytes else { throw Invalid("is longer than \(maxBytes) bytes") }
        guard text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw Invalid(Self.whatIsNotASCII(in: text))
        }
        let lowered = text.lowercased()
        guard lowered.hasPrefix("http://") || lowered.hasPrefix("https://") else {
            throw Invalid("must begin with https:// or http://")
        }
        // libcurl takes three slashes for two, and the first part of the path for the host.
        guard !lowered.hasPrefix("http:///"), !lowered.hasPrefix("https:///") else {
            throw Invalid("names no host")
        }
        guard let parts = Parts(text) else {
            throw Invalid(
                "is no URL that can be called: behind :// stands HOST or HOST:PORT, PORT up to 65535")
        }
        guard parts[CURLUPART_USER] == nil, parts[CURLUPART_PASSWORD] == nil else {
            throw Invalid("must not contain a user name or password; use a header")
        }
        guard parts[CURLUPART_FRAGMENT] == nil else { throw Invalid("must not contain a fragment (#…)") }
        guard parts[CURLUPART_ZONEID] == nil else { throw Invalid("must not contain an IPv6 zone") }
        guard let host = parts[CURLUPART_HOST], !host.isEmpty, let whole = parts[CURLUPART_URL],
            let scheme = parts[CURLUPART_SCHEME], let port = parts.port
        else { throw Invalid("names no host") }
        let path = (parts[CURLUPART_PATH] ?? "/") + (parts[CURLUPART_QUERY].map { "?\($0)" } ?? "")
        storage = Storage(
            whole, scheme: scheme.lowercased(), host: host.lowercased().trimmingBrackets, port: port, path: path)
    }

    package static func == (a: Self, b: Self) -> Bool { a.storage === b.storage || a.text == b.text }
    package func hash(into hasher: inout Hasher) { hasher.combine(text) }

    package var description: String { text }

    /// Host names have a spelling of their own; everything behind them is percent-encoded.
    private static func whatIsNotASCII(in text: String) -> String {
        let rest = text.firstRange(of: "://").map { text[$0.upperBound...] } ?? text[...]
        let server = rest.prefix { !"/?#".contains($0) }
        if server.unicodeScalars.contains(where: { $0.value > 0x7F }) {
            return "names a host that is not ASCII: write it as DNS has it, in Punycode (xn--…)"
        }
        let isBlank = { (scalar: Unicode.Scalar) in scalar.value <= 0x20 || scalar.value == 0x7F }
        if server.unicodeScalars.contains(where: isBlank) {
            return "must not have blanks or control characters in its host"
        }
        return "must be plain ASCII without blanks: percent-encode what is not, a blank as %20 and é as %C3%A9"
    }

    /// Problem of a URL, as the end of a sentence that begins with its name.
    package struct Invalid: Error, CustomStringConvertible {
        package let description: String

        package init(_ description: String) { self.description = description }
    }

    /// Parts of a URL. A class: a URL is passed on with every request.
    private final class Storage: Sendable {
        let text: String
        let scheme: String
        let host: String
        let port: Int
        let path: String
        let addressLiteral: IPAddress?
        let spread: Int

        init(_ text: String, scheme: String, host: String, port: Int, path: String) {
            self.text = text
            self.scheme = scheme
            self.host = host
            self.port = port
            self.path = path
            addressLiteral = IPAddress(host) ?? IPAddress.fromOldSpelling(host)
            var hasher = Hasher()
            hasher.combine(host)
            hasher.combine(port)
            spread = hasher.finalize() & .max
        }
    }

    /// libcurl's parsed URL; freed with its owner.
    private struct Parts: ~Copyable {
        private let handle: OpaquePointer

        init?(_ text: String) {
            guard stalecast_curl_prepare(), let handle = curl_url() else { return nil }
            guard curl_url_set(handle, CURLUPART_URL, text, 0) == CURLUE_OK else {
                curl_url_cleanup(handle)
                return nil
            }
            self.handle = handle
        }

        deinit { curl_url_cleanup(handle) }

        subscript(part: CURLUPart) -> String? { value(part, 0) }

        var port: Int? { value(CURLUPART_PORT, UInt32(CURLU_DEFAULT_PORT)).flatMap { Int($0) } }

        private func value(_ part: CURLUPart, _ flags: UInt32) -> String? {
            var text: UnsafeMutablePointer<CChar>?
            guard curl_url_get(handle, part, &text, flags) == CURLUE_OK, let text else { return nil }
            defer { curl_free(text) }
            return String(cString: text)
        }
    }
}

extension String {
    fileprivate var trimmingBrackets: String {
        hasPrefix("[") && hasSuffix("]") ? String(dropFirst().dropLast()) : self
    }
}
