import Foundation
import SampleRun
import StalecastClient

/// RuStore's three update behaviours side by side, each as a client of its own on the same server.
@main
struct UpdateBehaviours {
    static func main() async throws {
        let run = SampleRun("RuStore-shaped clients: default, snapshot and actual, side by side.")
        let behaviours: [(name: String, RemoteConfigUpdateBehaviour)] = [
            ("default", .default(timeInterval: 900)), ("snapshot", .snapshot(timeInterval: 900)), ("actual", .actual),
        ]
        let changes = AsyncStream.makeStream(of: Void.self)
        let clients = behaviours.map { name, behaviour in
            let client = RemoteConfigClient(
                appID: "sample-\(name)",
                configuration: RemoteConfigConfiguration(
                    environment: .release, updateBehaviour: behaviour,
                    requestParametersProvider: { RemoteConfigRequestParameters(account: "sample") }),
                options: run.options)
            client.addEventListener(
                RemoteConfigEventListener(
                    didUpdatePersistentStorage: {
                        print("\(name): new values are stored")
                        if name == "default" { changes.continuation.yield() }
                    },
                    didCompleteNetworkRequest: { error in
                        print(
                            "\(name): asked the server\(error.map { ", which failed: \($0.localizedDescription)" } ?? "")"
                        )
                    }))
            return (name, client)
        }

        // Read once and kept: with `default` even this old object sees new values.
        var early: [String: RemoteConfigView] = [:]
        for (name, client) in clients {
            client.start()
            early[name] = await client.remoteConfig()
        }
        show("at start", early)

        var count = 0
        for await _ in changes.stream {
            if count > 0 || early["default"]?.contains(key: "welcome_text") == true {
                show("the objects read at start", early)
            }
            var fresh: [String: RemoteConfigView] = [:]
            for (name, client) in clients { fresh[name] = await client.remoteConfig() }
            show("asked again", fresh)
            count += 1
            // The first is the values of the start.
            run.sawChange(count - 1)
        }
    }

    private static func show(_ title: String, _ views: [String: RemoteConfigView]) {
        let values = views.sorted { $0.key < $1.key }.map {
            "\($0.key) \($0.value.string(forKey: "welcome_text") ?? "-")"
        }
        print("\(title): " + values.joined(separator: " | "))
    }
}
