import Foundation

extension RemoteConfig {
    /// Sets the values in force where the server has none; replaces all former defaults. They are not stored: set them
    /// at each start. Texts, numbers, booleans, `Data`, dates, and arrays and dictionaries of these.
    ///
    /// - Parameter defaults: nil removes all.
    public func setDefaults(_ defaults: [String: Any]?) {
        let texts = DefaultValues.texts(of: defaults ?? [:])
        keeper.state.withLock { $0.defaults = texts }
    }

    /// Sets the members of `value` as defaults, each under its own name; replaces all former defaults.
    ///
    /// - Throws: `EncodingError`; ``RemoteConfigCodableError`` when `value` does not encode as an object.
    public func setDefaults(from value: some Encodable) throws {
        let texts = try DefaultValues.texts(of: value)
        keeper.state.withLock { $0.defaults = texts }
    }

    /// Sets the defaults of a property list: what `:downloadDefaults?format=PLIST` gives. No effect when there is no
    /// such file, or it is not a property list with a dictionary.
    ///
    /// - Parameter name: the name of a resource of the main bundle without `.plist`, or the path of a file.
    public func setDefaults(fromPlist name: String?) {
        // A file that is not a property list gives no defaults, as with Firebase.
        guard let name, let data = Self.plist(name),
            let values = try? PropertyListSerialization.propertyList(from: data, format: nil) as? [String: Any]
        else { return }
        setDefaults(values)
    }

    /// The default of a parameter; nil when it has none.
    public func defaultValue(forKey key: String?) -> RemoteConfigValue? {
        guard let key else { return nil }
        return keeper.state.withLock { $0.defaults[key] }.map { RemoteConfigValue($0, source: .default) }
    }

    private static func plist(_ name: String) -> Data? {
        let resource = Bundle.main.url(forResource: name, withExtension: "plist")
        let candidates = [resource, URL(fileURLWithPath: name), URL(fileURLWithPath: name + ".plist")]
        // A candidate that cannot be read is not the one meant.
        return candidates.lazy.compactMap { $0 }.compactMap { try? Data(contentsOf: $0) }.first
    }
}
