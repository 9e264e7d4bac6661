import Foundation
import StalecastWire

/// Form of an option's values: how one is read and checked, how it is spelled, and the words for both.
struct OptionKind<Value: Sendable & Equatable>: Sendable {
    /// Shape, unit and range for people: `duration, 100ms to 10m`.
    let form: String
    /// Reads one value; throws a sentence that says what would be right.
    let parse: @Sendable (String) throws(InvalidValue) -> Value
    /// A text that `parse` reads back, as it stands in YAML.
    let spell: @Sendable (Value) -> String
}

extension OptionKind<String> {
    /// A text that is spelled as it is.
    init(form: String, parse: @escaping @Sendable (String) throws(InvalidValue) -> String) {
        self.init(form: form, parse: parse) { $0 }
    }
}

extension OptionKind<Bool> {
    /// Exactly `true` or `false`; YAML 1.1's `yes` and `on` are refused.
    static let flag = OptionKind(form: "true or false") { text throws(InvalidValue) in
        guard let value = Bool(text) else { throw InvalidValue("\"\(text)\" must be true or false") }
        return value
    } spell: {
        String($0)
    }
}

extension OptionKind<Int> {
    /// A whole number; `zero` says what 0 means where it is no amount.
    static func count(_ range: ClosedRange<Int>, of unit: String, zero: String? = nil) -> OptionKind {
        let form = "number of \(unit), \(range.lowerBound) to \(range.upperBound)" + (zero.map { " (0: \($0))" } ?? "")
        return OptionKind(form: form) { text throws(InvalidValue) in
            guard let (number, rest) = numberAndUnit(text), rest.isEmpty else {
                throw InvalidValue("\"\(text)\" must be a whole number of \(unit), without a unit")
            }
            return try checked(Int(clamping: number), text, in: range) { String($0) }
        } spell: {
            String($0)
        }
    }

    /// A size in bytes, see `ByteCount`.
    static func size(_ range: ClosedRange<Int>) -> OptionKind {
        let form = "size, \(ByteCount.spelled(range.lowerBound)) to \(ByteCount.spelled(range.upperBound))"
        return OptionKind(form: form) { text throws(InvalidValue) in
            try checked(try ByteCount.bytes(spelled: text), text, in: range, spell: ByteCount.spelled)
        } spell: {
            ByteCount.spelled($0)
        }
    }
}

extension OptionKind<Duration> {
    /// A duration, see `Duration(spelled:)`.
    static func duration(_ range: ClosedRange<Duration>) -> OptionKind {
        OptionKind(form: "duration, \(range.lowerBound.spelled) to \(range.upperBound.spelled)") {
            text throws(InvalidValue) in
            try checked(try Duration(spelled: text), text, in: range) { $0.spelled }
        } spell: {
            $0.spelled
        }
    }
}

extension OptionKind<ListenAddress> {
    /// A listen address, see `ListenAddress`.
    static let address = OptionKind(
        form: "HOST:PORT or \"[IPv6]:PORT\" in quotes, port 0 to 65535 (0: a free one)",
        parse: ListenAddress.init(parsing:)
    ) { $0.host.contains(":") ? "\"\($0)\"" : $0.description }
}

extension OptionKind<String> {
    /// A path, relative to the working directory.
    static let directory = OptionKind(
        form: "directory, relative to the working directory", parse: checkedPath)

    /// A file of an entry, relative to the working directory.
    static func file(_ form: String) -> OptionKind { OptionKind(form: form, parse: checkedPath) }

    /// One of `allowedOrigins`, or `*`.
    static let origin = OptionKind(form: "SCHEME://HOST[:PORT], or * alone", parse: checkedOrigin) { "\"\($0)\"" }

    static let hostName = OptionKind(form: "host name without port, such as config.example.com") {
        text throws(InvalidValue) in
        guard text.isWord(1...253, and: "-._") else {
            throw InvalidValue("\"\(text)\" is no host name; write it without scheme and port: config.example.com")
        }
        return text.lowercased()
    } spell: {
        "\"\($0)\""
    }
}

extension OptionKind<APIKey> {
    static let apiKey = OptionKind(
        form: "key of 1 to 128 characters of A-Z a-z 0-9 - _", parse: APIKey.init(parsing:)
    ) { "\"\($0.text)\"" }
}

extension OptionKind<String?> {
    /// A text that is spelled as it is; the empty one is none.
    init(form: String, parse: @escaping @Sendable (String) throws(InvalidValue) -> String) {
        self.init(form: "\(form) (\"\": none)") { text throws(InvalidValue) in
            text.isEmpty ? nil : try parse(text)
        } spell: {
            $0 ?? "\"\""
        }
    }

    /// A path, relative to the working directory; the empty text means no path.
    static let optionalFile = OptionKind(form: "file, relative to the working directory", parse: checkedPath)
}

extension OptionKind where Value: RawRepresentable & CaseIterable, Value.RawValue: LosslessStringConvertible {
    /// One of the cases of an enumeration, by raw value.
    static var choice: OptionKind {
        let names = Value.allCases.map { String($0.rawValue) }
        let others = names.dropLast().joined(separator: ", ")
        let form = (others.isEmpty ? "" : others + " or ") + (names.last ?? "")
        return OptionKind(form: form) { text throws(InvalidValue) in
            if let raw = Value.RawValue(text), let value = Value(rawValue: raw) { return value }
            throw InvalidValue("\"\(text)\" must be \(form)")
        } spell: {
            String($0.rawValue)
        }
    }
}

private func checked<Value: Comparable>(
    _ value: Value, _ text: String, in range: ClosedRange<Value>, spell: (Value) -> String
) throws(InvalidValue) -> Value {
    if range.contains(value) { return value }
    throw InvalidValue("\"\(text)\" is out of range: \(spell(range.lowerBound)) to \(spell(range.upperBound))")
}

/// A path of the operator's; `~/x` is `x` in the home directory, as a shell would have it.
func checkedPath(_ text: String) throws(InvalidValue) -> String {
    if text == "~" || text.hasPrefix("~/") { return NSHomeDirectory() + text.dropFirst() }
    if text.hasPrefix("~") {
        throw InvalidValue(
            "\"\(text)\" names another user's home directory; write the path out, or ./~ for such a name")
    }
    if text.isEmpty { throw InvalidValue("the path is empty") }
    if text.utf8.contains(0) { throw InvalidValue("a path cannot contain a NUL character") }
    return text
}
