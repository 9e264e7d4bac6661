/// A property whose value is that of a parameter: the one in force, or `fallback` while there is none that fits.
///
/// ```swift
/// @RemoteConfigProperty(key: "welcome_text", fallback: "Hello") var welcomeText: String
/// ```
///
/// In SwiftUI it is a dynamic property: views are redrawn after an activation that changed it. Elsewhere it is read
/// again at each access, and ``RemoteConfigPropertyObserver/changes`` of its projected value observes it.
@propertyWrapper
public struct RemoteConfigProperty<Value: Decodable & Sendable> {
    #if canImport(SwiftUI)
        @StateObject private var observer: RemoteConfigPropertyObserver<Value>
    #else
        private let observer: RemoteConfigPropertyObserver<Value>
    #endif

    /// The parameter.
    public let key: String

    /// - Parameters:
    ///   - key: the parameter.
    ///   - fallback: the value while the parameter has none, in the active content or the defaults, that decodes.
    ///   - config: nil (default) is that of the default app, looked up at first use.
    public init(key: String, fallback: Value, config: RemoteConfig? = nil) {
        self.key = key
        #if canImport(SwiftUI)
            _observer = StateObject(
                wrappedValue: RemoteConfigPropertyObserver(key: key, fallback: fallback, config: config))
        #else
            observer = RemoteConfigPropertyObserver(key: key, fallback: fallback, config: config)
        #endif
    }

    /// The value in force, else the fallback.
    #if canImport(SwiftUI)
        @MainActor
    #endif
    public var wrappedValue: Value { observer.value }

    /// The value over time.
    #if canImport(SwiftUI)
        @MainActor
    #endif
    public var projectedValue: RemoteConfigPropertyObserver<Value> { observer }
}

#if canImport(SwiftUI)
    public import SwiftUI

    extension RemoteConfigProperty: DynamicProperty {}
#endif

/// Reads one parameter, and tells of its changes.
public final class RemoteConfigPropertyObserver<Value: Decodable & Sendable>: Sendable {
    private let key: String
    private let fallback: Value
    private let config: Locked<RemoteConfig?>
    private let registration = Locked<ConfigUpdateListenerRegistration?>(nil)

    init(key: String, fallback: Value, config: RemoteConfig?) {
        self.key = key
        self.fallback = fallback
        self.config = Locked(config)
        #if canImport(SwiftUI)
            let registration = resolvedConfig.addOnActivateListener { [weak self] keys in
                guard let self, keys.contains(self.key) else { return }
                // Ends at once.
                Task { @MainActor in self.objectWillChange.send() }
            }
            self.registration.withLock { $0 = registration }
        #endif
    }

    deinit { registration.withLock { $0 }?.remove() }

    /// The value in force, else the fallback.
    public var value: Value { resolvedConfig[decodedValue: key] ?? fallback }

    /// The value in force at once, then after each activation that changed the parameter. A slow consumer gets the
    /// newest.
    public var changes: AsyncStream<Value> {
        AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            let registration = resolvedConfig.addOnActivateListener { keys in
                if keys.contains(self.key) { continuation.yield(self.value) }
            }
            continuation.onTermination = { _ in registration.remove() }
            continuation.yield(value)
        }
    }

    private var resolvedConfig: RemoteConfig {
        config.withLock { config in
            if let config { return config }
            let found = RemoteConfig.remoteConfig()
            config = found
            return found
        }
    }
}

#if canImport(Combine)
    public import Combine

    extension RemoteConfigPropertyObserver: ObservableObject {}
#endif
