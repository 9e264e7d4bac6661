import Foundation
import StalecastClient

/// A part of the app's configuration: one member of the JSON parameter `screens`.
protocol ParsableConfig: Decodable, Sendable, Equatable {
    /// The member's name.
    static var member: String { get }
    /// Value that counts while the server says nothing that fits.
    static var fallback: Self { get }
}

/// Decodes several configurations out of one JSON parameter and tells observers which of them changed.
///
/// One parameter keeps what belongs together in one place in the console, and a version can never have half of it.
final class ConfigHelper: Sendable {
    private let remoteConfig: RemoteConfig
    private let key: String

    init(_ remoteConfig: RemoteConfig, key: String) {
        self.remoteConfig = remoteConfig
        self.key = key
    }

    /// The configuration in force; the fallback when the parameter or its member is missing or does not decode.
    func value<Config: ParsableConfig>(_ type: Config.Type = Config.self) -> Config {
        guard let members = remoteConfig[key].jsonValue as? [String: Any], let member = members[Config.member],
            let data = try? JSONSerialization.data(withJSONObject: member, options: .fragmentsAllowed),
            let value = try? JSONDecoder().decode(Config.self, from: data)
        else { return Config.fallback }
        return value
    }

    /// Calls `observer` now and after each activation that changed this configuration, and only this one.
    func observe<Config: ParsableConfig>(
        _ type: Config.Type, _ observer: @escaping @Sendable (Config) -> Void
    ) -> ConfigUpdateListenerRegistration {
        let last = Last<Config>()
        let tell: @Sendable () -> Void = { [self] in
            if let changed = last.replaced(by: { value(type) }) { observer(changed) }
        }
        // Listens first: an activation between the first look and the registration would be missed.
        let registration = remoteConfig.addOnActivateListener { [key] keys in if keys.contains(key) { tell() } }
        tell()
        return registration
    }
}

/// The last value an observer saw.
private final class Last<Config: ParsableConfig>: @unchecked Sendable {
    private let lock = NSLock()
    private var current: Config?

    /// The value there is now; nil when it is the one seen last. It is read under the lock, so that an older one never
    /// replaces a newer one.
    func replaced(by read: () -> Config) -> Config? {
        lock.withLock {
            let value = read()
            guard value != current else { return nil }
            current = value
            return value
        }
    }
}
