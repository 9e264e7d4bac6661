import Foundation
import SampleRun
import StalecastClient

/// Reaction of an app to advice; the app's window would implement it.
protocol UpdateHandler: Sendable {
    func handle(_ advice: UpdateAdvice, for version: AppVersion)
}

struct ConsoleHandler: UpdateHandler {
    func handle(_ advice: UpdateAdvice, for version: AppVersion) {
        switch advice {
        case .none: print("update none: \(version) is fine")
        case .recommend: print("update recommend: there is something newer than \(version)")
        case .force: print("update force: \(version) does not work any more; show the store and nothing else")
        }
    }
}

/// Compares the app's version with the parameter, at start and whenever it changes.
struct UpdateWatch: Sendable {
    let remoteConfig: RemoteConfig
    let version: AppVersion
    let handler: any UpdateHandler

    func check() {
        let versions: UpdateVersions? = remoteConfig[decodedValue: "update_version"]
        handler.handle(versions?.advice(for: version) ?? .none, for: version)
    }
}

@main
struct ForceUpdate {
    static func main() async throws {
        let run = SampleRun("Asks for an update, or insists on one, by a parameter. APP_VERSION is the app's (1.0.5).")
        let text = ProcessInfo.processInfo.environment["APP_VERSION"] ?? "1.0.5"
        guard let version = AppVersion(text) else {
            print("APP_VERSION must look like 1.0.5")
            exit(64)
        }
        Stalecast.configure(options: run.options)
        let remoteConfig = RemoteConfig.remoteConfig()
        let watch = UpdateWatch(remoteConfig: remoteConfig, version: version, handler: ConsoleHandler())
        _ = try? await remoteConfig.fetchAndActivate()  // without a server no user is locked out
        watch.check()

        var count = 0
        await run.forEachUpdate(of: remoteConfig) { update in
            _ = try await remoteConfig.activate()
            if update.updatedKeys.contains("update_version") { watch.check() }
            count += 1
            run.sawChange(count)
        }
    }
}
