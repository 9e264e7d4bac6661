import Foundation

/// Entry point of the SDK: an app names here, once and first of all, the server of its configuration.
///  ```swift Stalecast.configure(options: StalecastOptions(endpoint: URL(string: "https://config.example.com")!,
/// project: "shop")) let remoteConfig = RemoteConfig.remoteConfig() ```
public enum Stalecast {
    /// The name of the app that is used when none is named.
    public static let defaultAppName = "default"

    private static let apps = Locked<[String: StalecastApp]>([:])

    /// Makes the default app.
    ///
    /// - Precondition: it was not configured before.
    @discardableResult
    public static func configure(options: StalecastOptions = StalecastOptions()) -> StalecastApp {
        configure(name: defaultAppName, options: options)
    }

    /// Makes a further app, which shares nothing with the others but the process.
    ///
    /// - Precondition: no app of that name was configured before, or it was deleted.
    @discardableResult
    public static func configure(name: String, options: StalecastOptions) -> StalecastApp {
        configure(name: name, options: options, environment: .live)
    }

    /// The default app.
    ///
    /// - Returns: nil before ``configure(options:)``.
    public static func app() -> StalecastApp? { app(name: defaultAppName) }

    /// The app of a name; nil when there is none.
    public static func app(name: String) -> StalecastApp? { apps.withLock { $0[name] } }

    static func configure(
        name: String, options: StalecastOptions, environment: ClientEnvironment
    ) -> StalecastApp {
        apps.withLock { apps in
            precondition(apps[name] == nil, "the app \(name) is configured already; call Stalecast.configure once")
            let app = StalecastApp(name: name, options: options, environment: environment)
            apps[name] = app
            return app
        }
    }

    /// The app of a name, configured now if it was not before.
    static func app(
        name: String, orConfigured options: StalecastOptions, environment: ClientEnvironment
    ) -> StalecastApp {
        apps.withLock { apps in
            if let app = apps[name] { return app }
            let app = StalecastApp(name: name, options: options, environment: environment)
            apps[name] = app
            return app
        }
    }

    /// The default app, which must have been configured.
    static func requiredApp() -> StalecastApp {
        guard let app = app() else {
            preconditionFailure("call Stalecast.configure(options:) before RemoteConfig is used, at the app's start")
        }
        return app
    }

    static func forget(_ app: StalecastApp) {
        apps.withLock { apps in
            if apps[app.name] === app { apps[app.name] = nil }
        }
    }
}
