import Foundation

extension RemoteConfig {
    /// The value in force: the active one, else the default, else the empty one of source `static`, which a nil key has.
    public func configValue(forKey key: String?) -> RemoteConfigValue {
        guard let key else { return RemoteConfigValue("", source: .static) }
        let (text, source) = keeper.value(forKey: key)
        return RemoteConfigValue(text, source: source)
    }

    /// The value that `source` has for a parameter; an empty one of source `static` when it has none.
    public func configValue(forKey key: String?, source: RemoteConfigSource) -> RemoteConfigValue {
        let text = keeper.state.withLock { state -> String? in
            guard let key else { return nil }
            return switch source {
            case .remote: state.stored.active?.entries[key]
            case .default: state.defaults[key]
            case .static: nil
            }
        }
        return RemoteConfigValue(text ?? "", source: text == nil ? .static : source)
    }

    /// ``configValue(forKey:)``.
    public subscript(key: String) -> RemoteConfigValue { configValue(forKey: key) }

    /// The value as a JSON object of hashable values; nil when it is no JSON object.
    public subscript(jsonValue key: String) -> [String: AnyHashable]? {
        (configValue(forKey: key).jsonValue as? [String: Any])?.mapValues(Self.hashable)
    }

    /// Objects and arrays within are hashable as well, which Foundation's own are not everywhere.
    private static func hashable(_ value: Any) -> AnyHashable {
        switch value {
        case let object as [String: Any]: AnyHashable(object.mapValues(hashable))
        case let array as [Any]: AnyHashable(array.map(hashable))
        case let other as AnyHashable: other
        default: AnyHashable(NSNull())
        }
    }

    /// The value as a type; nil when there is no such parameter or it does not decode. See
    /// ``RemoteConfigValue/decoded(asType:)`` for the reason.
    public subscript<Value: Decodable>(decodedValue key: String) -> Value? {
        let value = configValue(forKey: key)
        // Another type: nil, as Firebase does.
        return value.source == .static ? nil : try? value.decoded(asType: Value.self)
    }

    /// All values in force as one type, whose members are parameters.
    ///
    /// - Throws: `DecodingError` for a parameter that is missing or does not fit its member.
    public func decoded<Value: Decodable>(asType type: Value.Type = Value.self) throws -> Value {
        try Value(from: ParametersDecoder(values: keeper.values))
    }

    /// The names of the parameters a source has, in no order.
    public func allKeys(from source: RemoteConfigSource) -> [String] { keeper.keys(from: source) }

    /// The names of active parameters that begin with `prefix`; nil or an empty prefix is all of them.
    public func keys(withPrefix prefix: String?) -> Set<String> {
        let prefix = prefix ?? ""
        return Set(keeper.keys(from: .remote).filter { $0.hasPrefix(prefix) })
    }
}
