package import StalecastTemplate
package import StalecastWire

/// A parameter's value as JSON of its type. Providers compare types: a number in a text is a mismatch to them.
package enum FlagValue {
    /// nil for a text that is not of the type; only versions stored under older rules have one.
    package static func json(_ text: String, _ type: ValueType) -> JSONValue? {
        switch type {
        case .string: return .string(text)
        case .boolean: return .bool(truths.contains(text.lowercased()))
        case .number: return number(text)
        case .json: return JSONValue.ifValid(text.utf8)
        }
    }

    /// Firebase's, which its SDKs read as true.
    private static let truths: Set<String> = ["1", "true", "t", "yes", "y", "on"]

    /// Number as it was written, so that `3.0` stays a float; JSON has no `.5` and no `007`.
    private static func number(_ text: String) -> JSONValue? {
        let isNegative = text.utf8.first == UInt8(ascii: "-")
        let parts = text.utf8.dropFirst(isNegative ? 1 : 0)
            .split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        let areDigits = parts.allSatisfy { $0.allSatisfy { (0x30...0x39).contains($0) } }
        guard areDigits, parts.count <= 2, let last = parts.last, !last.isEmpty else { return nil }
        let whole = String(decoding: parts[0].drop { $0 == UInt8(ascii: "0") }, as: UTF8.self)
        let fraction = parts.count == 2 ? "." + String(decoding: last, as: UTF8.self) : ""
        return .number((isNegative ? "-" : "") + (whole.isEmpty ? "0" : whole) + fraction)
    }
}
