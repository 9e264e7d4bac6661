import Foundation
import StalecastClient

/// A part of the app's configuration: one member of the JSON parameter `screens`.
protocol ParsableConfig: Decodable, Sendable, Equatable {
    /// The member's name.
    static var member: String { get }
    /// What counts while the server says nothing that fits.
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
        let last = Last(value(type))
        observer(last.value)
        return remoteConfig.addOnActivateListener { [self] keys in
            guard keys.contains(key), let changed = last.replace(with: value(type)) else { return }
            observer(changed)
        }
    }
}

/// The last value an observer saw.
private final class Last<Config: ParsableConfig>: @unchecked Sendable {
    private let lock = NSLock()
    private var current: Config

    init(_ value: Config) { current = value }

    var value: Config { lock.withLock { current } }

    /// Nil when it is the same.
    func replace(with value: Config) -> Config? {
        lock.withLock {
            guard value != current else { return nil }
            current = value
            return value
        }
    }
}
