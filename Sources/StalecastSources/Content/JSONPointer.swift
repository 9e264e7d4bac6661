package import StalecastWire

/// A place in a JSON document as RFC 6901 spells it: empty is the whole document, `/data/0/a~1b` the member `a/b` of
/// the first element of `data`.
package struct JSONPointer: Hashable, Sendable, CustomStringConvertible {
    /// Text as given.
    package let description: String
    private let tokens: [String]

    /// The whole document.
    package static let whole = JSONPointer(tokens: [])

    private init(tokens: [String]) {
        self.tokens = tokens
        description = ""
    }

    /// - Throws: ``InvalidValue`` unless it is empty or begins with `/`, and each `~` is followed by 0 or 1.
    package init(_ text: String) throws(InvalidValue) {
        description = text
        guard !text.isEmpty else {
            tokens = []
            return
        }
        guard text.utf8.first == UInt8(ascii: "/") else { throw Self.invalid(text) }
        var tokens: [String] = []
        // Empty tokens count: `/` means the member with the empty name (RFC 6901, section 5).
        for raw in text.utf8.dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
            guard let token = Self.unescaped(raw) else { throw Self.invalid(text) }
            tokens.append(token)
        }
        self.tokens = tokens
    }

    private static func unescaped(_ raw: Substring.UTF8View) -> String? {
        var bytes: [UInt8] = []
        var rest = raw.makeIterator()
        while let byte = rest.next() {
            guard byte == UInt8(ascii: "~") else {
                bytes.append(byte)
                continue
            }
            // One pass makes `~1` of `~01` (RFC 6901, section 4); two replacements in a row could make `/` of it.
            switch rest.next() {
            case UInt8(ascii: "0"): bytes.append(UInt8(ascii: "~"))
            case UInt8(ascii: "1"): bytes.append(UInt8(ascii: "/"))
            default: return nil
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Value at that place; nil when there is none.
    package func value(in document: JSONValue) -> JSONValue? {
        var value = document
        for token in tokens {
            switch value {
            case .object(let object):
                guard let member = object[token] else { return nil }
                value = member
            case .array(let elements):
                guard let index = Self.index(token), index < elements.count else { return nil }
                value = elements[index]
            case .null, .bool, .number, .string: return nil
            }
        }
        return value
    }

    /// Digits without a leading zero; `-`, the element after the last, never exists.
    private static func index(_ token: String) -> Int? {
        guard token.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        guard token == "0" || token.utf8.first != 0x30 else { return nil }
        return Int(token)
    }

    private static func invalid(_ text: String) -> InvalidValue {
        InvalidValue(
            "\(text.prefix(80)) is no JSON pointer: it is empty for the whole document or begins with /, for example "
                + "/data/version; in names ~0 stands for ~ and ~1 for /")
    }
}
