/// A JSON document as a value. Objects keep the order of their members; numbers keep their text, so that a 64-bit
/// integer or `1.10` comes out as it went in.
package indirect enum JSONValue: Hashable, Sendable {
    case null
    case bool(Bool)
    /// The number's own text, for example `-1.5e3`; valid JSON by construction of the parser.
    case number(String)
    case string(String)
    case array([JSONValue])
    case object(JSONObject)
}

/// The members of a JSON object in document order.
package struct JSONObject: Sendable, Hashable, ExpressibleByDictionaryLiteral {
    package private(set) var keys: [String] = []
    private var values: [String: JSONValue] = [:]

    package init() {}

    package init(dictionaryLiteral elements: (String, JSONValue)...) {
        for (key, value) in elements { self[key] = value }
    }

    package var count: Int { keys.count }
    package var isEmpty: Bool { keys.isEmpty }

    /// Reads, sets (at the end when new) or, with nil, removes a member.
    package subscript(key: String) -> JSONValue? {
        get { values[key] }
        set {
            if let newValue {
                if values.updateValue(newValue, forKey: key) == nil { keys.append(key) }
            } else if values.removeValue(forKey: key) != nil {
                keys.removeAll { $0 == key }
            }
        }
    }

    /// Members in document order.
    package var members: [(key: String, value: JSONValue)] { keys.map { ($0, values[$0]!) } }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    package init(stringLiteral value: String) { self = .string(value) }
    package init(booleanLiteral value: Bool) { self = .bool(value) }
    package init(integerLiteral value: Int64) { self = .number(String(value)) }
    package init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
    package init(dictionaryLiteral elements: (String, JSONValue)...) {
        var object = JSONObject()
        for (key, value) in elements { object[key] = value }
        self = .object(object)
    }

    package static func int(_ value: some BinaryInteger) -> JSONValue { .number(String(value)) }
    package static func int(_ version: VersionNumber) -> JSONValue { .number(version.description) }
    /// A finite number; NaN and infinities become null, since JSON has no word for them.
    package static func double(_ value: Double) -> JSONValue {
        guard value.isFinite else { return .null }
        return .number(value == value.rounded() && abs(value) < 1e15 ? String(Int64(value)) : "\(value)")
    }

    package var string: String? { if case .string(let text) = self { text } else { nil } }
    package var bool: Bool? { if case .bool(let flag) = self { flag } else { nil } }
    package var array: [JSONValue]? { if case .array(let elements) = self { elements } else { nil } }
    package var object: JSONObject? { if case .object(let object) = self { object } else { nil } }
    package var isNull: Bool { if case .null = self { true } else { false } }

    /// An integer, from a JSON number or, as protobuf's JSON mapping allows, from a decimal string.
    package var int64: Int64? {
        switch self {
        case .number(let text), .string(let text): Int64(text)
        default: nil
        }
    }

    /// A version's number, spelled like ``int64``; nil outside its range.
    package var versionNumber: VersionNumber? { int64.flatMap { VersionNumber(exactly: $0) } }

    package subscript(key: String) -> JSONValue? { object?[key] }

    /// Kind of the value for an error message: "a string", "an object" …
    package var kind: String {
        switch self {
        case .null: "null"
        case .bool: "a boolean"
        case .number: "a number"
        case .string: "a string"
        case .array: "an array"
        case .object: "an object"
        }
    }
}
