import Foundation
import SampleRun
import StalecastClient

/// Delegate for Firebase's guide "propagate Remote Config updates in real time": a message on topic `PUSH_RC` marks the
/// configuration as stale, and the next fetch asks the server whatever the interval.
final class AppDelegate: PushMessagingDelegate, Sendable {
    let remoteConfig: RemoteConfig
    let run: SampleRun
    private let lock = NSLock()
    nonisolated(unsafe) private var count = 0

    init(remoteConfig: RemoteConfig, run: SampleRun) {
        self.remoteConfig = remoteConfig
        self.run = run
    }

    func messaging(_ messaging: PushMessaging, didReceiveRemoteNotification userInfo: [String: String]) {
        guard userInfo["CONFIG_STATE"] == "STALE" else { return }
        print("message: CONFIG_STATE=STALE, version \(userInfo["latestTemplateVersionNumber"] ?? "unknown")")
        Task { await fetch() }
    }

    func fetch() async {
        // The flag outlives the process: an app that was killed meanwhile fetches at its next start.
        let wasStale = PushMessaging.messaging().isConfigStale
        do {
            try await remoteConfig.fetch()
            let isNew = try await remoteConfig.activate()
            let how = wasStale ? "asked the server because the flag was set" : "within the interval the cache is enough"
            let version = remoteConfig.activeVersion.map { "\($0)" } ?? "none"
            print("fetch: \(how); active version \(version)\(isNew ? ", new" : "")")
            print("welcome_text = \(remoteConfig["welcome_text"].stringValue)")
            if wasStale { seen() }
        } catch {
            print("fetch failed, the flag stays: \(error.localizedDescription)")
        }
    }

    private func seen() {
        let number = lock.withLock {
            count += 1
            return count
        }
        run.sawChange(number)
    }
}

@main
struct RealtimePropagation {
    static func main() async throws {
        let run = SampleRun("A message on PUSH_RC sets a durable flag; the next fetch ignores the cache's age.")
        Stalecast.configure(options: run.options)
        // The default: values may be twelve hours old unless a message says otherwise.
        let delegate = AppDelegate(remoteConfig: .remoteConfig(), run: run)
        await delegate.fetch()
        let messaging = PushMessaging.messaging()
        messaging.delegate = delegate
        try await messaging.subscribe(toTopic: "PUSH_RC")
        print("subscribed to PUSH_RC")
        while true { try await Task.sleep(for: .seconds(3600)) }
    }
}
