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
    /// Members in document order.
    package private(set) var members: [(key: String, value: JSONValue)] = []
    /// Places of the members; nil while there are so few that looking at each is quicker.
    private var places: [String: Int]?

    private static let few = 16

    package init() {}

    /// An object with room for so many members.
    package init(capacity: Int) { members.reserveCapacity(capacity) }

    /// A member whose value is nil is left out.
    package init(dictionaryLiteral elements: (String, JSONValue?)...) { self.init(elements) }

    fileprivate init(_ elements: [(String, JSONValue?)]) {
        self.init(capacity: elements.count)
        for (key, value) in elements { self[key] = value }
    }

    package var keys: [String] { members.map(\.key) }
    package var count: Int { members.count }
    package var isEmpty: Bool { members.isEmpty }

    /// Reads, sets (at the end when new) or, with nil, removes a member.
    package subscript(key: String) -> JSONValue? {
        get { place(of: key).map { members[$0].value } }
        set {
            let place = place(of: key)
            if let newValue {
                if let place { members[place].value = newValue } else { append(key, newValue) }
            } else if let place {
                members.remove(at: place)
                if places != nil { indexMembers() }
            }
        }
    }

    private func place(of key: String) -> Int? {
        if let places { return places[key] }
        return members.firstIndex { $0.key == key }
    }

    private mutating func append(_ key: String, _ value: JSONValue) {
        members.append((key, value))
        if places != nil { places?[key] = members.count - 1 } else if members.count > Self.few { indexMembers() }
    }

    private mutating func indexMembers() {
        places = Dictionary(uniqueKeysWithValues: members.indices.map { (members[$0].key, $0) })
    }

    package static func == (a: JSONObject, b: JSONObject) -> Bool {
        a.members.elementsEqual(b.members) { $0.key == $1.key && $0.value == $1.value }
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(members.count)
        for (key, value) in members {
            hasher.combine(key)
            hasher.combine(value)
        }
    }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    package init(stringLiteral value: String) { self = .string(value) }
    package init(booleanLiteral value: Bool) { self = .bool(value) }
    package init(integerLiteral value: Int64) { self = .number(String(value)) }
    package init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
    /// A member whose value is nil is left out.
    package init(dictionaryLiteral elements: (String, JSONValue?)...) { self = .object(JSONObject(elements)) }

    package static func int(_ value: some BinaryInteger) -> JSONValue { .number(String(value)) }
    package static func int(_ version: VersionNumber) -> JSONValue { .number(version.description) }
    /// The value's description as a string; nil for nil, which a literal leaves out.
    package static func described(_ value: (some CustomStringConvertible)?) -> JSONValue? {
        value.map { .string($0.description) }
    }
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
