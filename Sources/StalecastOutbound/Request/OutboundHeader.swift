import StalecastWire

/// One header of a request that cannot break out of its line.
package struct OutboundHeader: Sendable, Hashable {
    package let name: String
    package let value: String

    /// - Parameters:
    ///   - name: a token of RFC 9110, 1 to 128 characters.
    ///   - value: visible ASCII, blanks and tabs inside it, at most 4,096 bytes.
    /// - Throws: ``OutboundURL/Invalid`` that says what is wrong.
    package init(_ name: String, _ value: String) throws(OutboundURL.Invalid) {
        guard (1...128).contains(name.utf8.count),
            name.utf8.allSatisfy({ $0.isASCIIAlphanumeric || "!#$%&'*+-.^_`|~".utf8.contains($0) })
        else {
            throw OutboundURL.Invalid("\"\(name.prefix(40))\" is no header name; use letters, digits and -")
        }
        guard value.utf8.count <= 4096, value.utf8.allSatisfy({ $0 == 9 || (0x20...0x7E).contains($0) }) else {
            throw OutboundURL.Invalid("the value of \(name) must be plain ASCII in one line of at most 4096 bytes")
        }
        self.init(trusted: name, value)
    }

    /// Makes a header of a name and a value that the caller has made itself.
    package init(trusted name: String, _ value: String) {
        self.name = name
        self.value = value
    }
}
