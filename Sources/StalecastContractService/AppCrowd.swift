import Foundation
import StalecastClient
import StalecastWire

/// Many whole apps on one server, each with a cache of its own, which listen and activate what they hear of.
final class AppCrowd: Crowd, Sendable {
    private let lock = NSLock()
    /// Reached under `lock` only: per app the last update's time, in microseconds since 1970, and its keys.
    nonisolated(unsafe) private var updates: [(time: Int64, keys: Set<String>)]
    private let apps: [StalecastApp]
    private let directory: URL
    /// Values of the parameter `parameter`, as they are in force.
    private let parameter: String

    /// - Parameter parameters: `endpoint`, `parameter`, and optionally `count`.
    init(_ parameters: JSONValue) throws(UnusableCrowd) {
        guard let endpoint = parameters["endpoint"]?.string.flatMap({ URL(string: $0) }) else {
            throw UnusableCrowd(description: "endpoint is needed, and must be a URL")
        }
        parameter = parameters["parameter"]?.string ?? ""
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent("crowd-\(UUID().uuidString)")
        self.directory = directory
        let count = Int(min(max(1, parameters["count"]?.int64 ?? 1), 5000))
        updates = Array(repeating: (0, []), count: count)
        apps = (0..<count).map { number in
            var options = StalecastOptions(endpoint: endpoint)
            options.cacheDirectory = directory
            return Stalecast.configure(name: "\(directory.lastPathComponent)-\(number)", options: options)
        }
    }

    func start() {
        for (number, app) in apps.enumerated() {
            let config = RemoteConfig.remoteConfig(app: app)
            config.addOnConfigUpdateListener { [weak self] update, _ in
                guard let self, let update else { return }
                let now = Int64(Date().timeIntervalSince1970 * 1_000_000)
                lock.withLock { updates[number] = (now, update.updatedKeys) }
                config.activate()
            }
        }
    }

    func stop() {
        for app in apps { app.delete() }
        // What is left is the system's to remove.
        try? FileManager.default.removeItem(at: directory)
    }

    func happened(_ name: String) -> Bool {
        guard name == "networkChanged" else { return false }
        for app in apps { app.networkChanged() }
        return true
    }

    var summary: JSONValue {
        let updates = lock.withLock { self.updates }
        let configs = apps.map { RemoteConfig.remoteConfig(app: $0) }
        return [
            "versions": .tally(configs.map { "\($0.activeVersion ?? 0)" }),
            "values": .tally(configs.map { $0[parameter].stringValue }),
            "updatedKeys": .tally(updates.map { $0.keys.sorted().joined(separator: " ") }),
            "updatedAt": .array(updates.map { .int($0.time) }),
        ]
    }
}
