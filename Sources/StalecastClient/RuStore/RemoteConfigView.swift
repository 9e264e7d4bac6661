import Foundation

/// The values of a ``RemoteConfigClient``, typed by the reader. Which values: see ``RemoteConfigUpdateBehaviour``.
public struct RemoteConfigView: Sendable {
    private let read: @Sendable (String) -> String?
    private let names: @Sendable () -> [String]

    /// Values that never change.
    init(values: [String: String]) {
        read = { values[$0] }
        names = { Array(values.keys) }
    }

    /// Values that are looked up each time.
    init(keeper: ConfigKeeper) {
        read = { key in keeper.state.withLock { $0.stored.active?.entries[key] } }
        names = { keeper.keys(from: .remote) }
    }

    /// The names of all parameters, in no order.
    public var keys: [String] { names() }

    /// Whether there is a parameter of this name.
    public func contains(key: String) -> Bool { read(key) != nil }

    /// The value as a whole number; nil when the parameter is missing or its text is not one.
    public func integer(forKey key: String) -> Int? { read(key).flatMap { Int($0.trimmed) } }

    /// The value as a number; nil when the parameter is missing or its text is not one.
    public func double(forKey key: String) -> Double? { read(key).flatMap { Double($0.trimmed) } }

    /// The value as text; nil when the parameter is missing.
    public func string(forKey key: String) -> String? { read(key) }

    /// The value as a boolean, `true` or `false` in any case; nil when it is missing or neither.
    public func bool(forKey key: String) -> Bool? { read(key).flatMap { Bool($0.trimmed.lowercased()) } }

    /// The value as a JSON object or array of Foundation's types; nil when it is missing or is neither.
    public func jsonObject(forKey key: String) -> Any? {
        read(key).flatMap { try? JSONSerialization.jsonObject(with: Data($0.utf8)) }
    }

    /// The value as JSON of a type.
    ///
    /// - Throws: `DecodingError`; `keyNotFound` when there is no such parameter.
    public func jsonObject<Value: Decodable>(forKey key: String, as type: Value.Type) throws -> Value {
        guard let text = read(key) else {
            let path = ParameterName(stringValue: key)
            let context = DecodingError.Context(codingPath: [], debugDescription: "there is no parameter \(key)")
            throw DecodingError.keyNotFound(path, context)
        }
        return try JSONDecoder().decode(type, from: Data(text.utf8))
    }

    private struct ParameterName: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }
}

extension String {
    fileprivate var trimmed: String { trimmingCharacters(in: .whitespaces) }
}
