/// A stored member that is empty where an older SDK did not write it: its absence must not make a cache useless.
@propertyWrapper
package struct OrEmpty<Value: Emptiable>: Equatable, Codable {
    package var wrappedValue: Value

    package init(wrappedValue: Value) { self.wrappedValue = wrappedValue }

    package init(from decoder: any Decoder) throws { wrappedValue = try Value(from: decoder) }

    package func encode(to encoder: any Encoder) throws { try wrappedValue.encode(to: encoder) }
}

/// A type whose values can be empty: 0, false, no elements.
package protocol Emptiable: Equatable, Codable {
    init()
}

extension OrEmpty: Sendable where Value: Sendable {}

extension Int: Emptiable {}
extension Bool: Emptiable {}
extension Array: Emptiable where Element: Equatable & Codable {}
extension Dictionary: Emptiable where Key: Codable, Value: Equatable & Codable {}

extension KeyedDecodingContainer {
    /// Decodes a member of a synthesised `init(from:)`, which calls this instead of the library's method.
    func decode<Value>(_ type: OrEmpty<Value>.Type, forKey key: Key) throws -> OrEmpty<Value> {
        try decodeIfPresent(type, forKey: key) ?? OrEmpty(wrappedValue: Value())
    }
}
