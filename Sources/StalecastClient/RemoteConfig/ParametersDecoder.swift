/// Decodes a type whose members are parameters: each member from the parameter of its name.
struct ParametersDecoder: Decoder {
    let values: [String: String]
    let codingPath: [any CodingKey] = []
    let userInfo: [CodingUserInfoKey: Any] = [:]

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        KeyedDecodingContainer(Members(values: values))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer { throw notKeyed() }

    func singleValueContainer() throws -> any SingleValueDecodingContainer { throw notKeyed() }

    private func notKeyed() -> DecodingError {
        let reason = "parameters are decoded as a type with named members; for one value use subscript(decodedValue:)"
        return .typeMismatch(
            [String: String].self, DecodingError.Context(codingPath: [], debugDescription: reason))
    }

    private struct Members<Key: CodingKey>: KeyedDecodingContainerProtocol {
        let values: [String: String]
        let codingPath: [any CodingKey] = []

        var allKeys: [Key] { values.keys.compactMap(Key.init(stringValue:)) }

        func contains(_ key: Key) -> Bool { values[key.stringValue] != nil }

        func decodeNil(forKey key: Key) throws -> Bool { values[key.stringValue] == nil }

        func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
            guard let text = values[key.stringValue] else {
                let reason = "there is no parameter \(key.stringValue), neither active nor among the defaults"
                throw DecodingError.keyNotFound(key, DecodingError.Context(codingPath: [], debugDescription: reason))
            }
            return try ParameterValueDecoder.decode(type, from: text, path: [key])
        }

        func nestedContainer<Nested: CodingKey>(
            keyedBy type: Nested.Type, forKey key: Key
        ) throws -> KeyedDecodingContainer<Nested> {
            throw nested(key)
        }

        func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer { throw nested(key) }

        func superDecoder() throws -> any Decoder { ParametersDecoder(values: values) }

        func superDecoder(forKey key: Key) throws -> any Decoder { throw nested(key) }

        private func nested(_ key: Key) -> DecodingError {
            let reason = "decode the member as a type of its own; a parameter has no containers"
            return .dataCorrupted(DecodingError.Context(codingPath: [key], debugDescription: reason))
        }
    }
}
