import Foundation
import StalecastClient
import StalecastWire

/// Many whole apps on one server, each with a cache of its own, which listen and activate what they hear of.
final class AppCrowd: Crowd, Sendable {
    private let lock = NSLock()
    /// Reached under `lock` only: per app the last update's time, in microseconds since 1970, and its keys.
    nonisolated(unsafe) private var updates: [(time: Int64, keys: Set<String>)]
    /// Reached under `lock` only: per app, the newest version known to be on disk and in force.
    nonisolated(unsafe) private var durable: [Int64]
    private let problems = ProblemList()
    private let apps: [StalecastApp]
    private let directory: URL
    /// Whether the caches are left behind.
    private let keepsDirectory: Bool
    /// Values of the parameter `parameter`, as they are in force.
    private let parameter: String

    /// - Parameter parameters: `endpoint`, `parameter`, and optionally `count`, `directory` (of the caches, which are then
    ///   left behind; of one name, so that the same apps come back), `headers`, `fetchTimeoutMs`, and the limits of the
    ///   connection by their names in a ``ConnectionCrowd``.
    init(_ parameters: JSONValue) throws(UnusableCrowd) {
        guard let endpoint = parameters["endpoint"]?.string.flatMap({ URL(string: $0) }) else {
            throw UnusableCrowd(description: "endpoint is needed, and must be a URL")
        }
        parameter = parameters["parameter"]?.string ?? ""
        let given = parameters["directory"]?.string.map { URL(fileURLWithPath: $0) }
        let directory =
            given ?? FileManager.default.temporaryDirectory.appendingPathComponent("crowd-\(UUID().uuidString)")
        self.directory = directory
        keepsDirectory = given != nil
        let count = Int(min(max(1, parameters["count"]?.int64 ?? 1), 5000))
        updates = Array(repeating: (0, []), count: count)
        durable = Array(repeating: 0, count: count)
        var options = StalecastOptions(endpoint: endpoint)
        options.cacheDirectory = directory
        options.connection = ConnectionOptions(limits: parameters)
        for (name, value) in parameters["headers"]?.object?.members ?? [] { options.headers[name] = value.string }
        options.onProblem = { [problems] in problems.add($0) }
        apps = (0..<count).map { number in
            Stalecast.configure(name: "\(directory.lastPathComponent)-\(number)", options: options)
        }
        if let timeout = parameters["fetchTimeoutMs"]?.int64 { setFetchTimeout(TimeInterval(timeout) / 1000) }
    }

    func start() {
        for (number, app) in apps.enumerated() {
            let config = RemoteConfig.remoteConfig(app: app)
            config.addOnConfigUpdateListener { [weak self] update, _ in
                guard let self, let update else { return }
                let now = Int64(Date().timeIntervalSince1970 * 1_000_000)
                lock.withLock { updates[number] = (now, update.updatedKeys) }
                activate(config, number)
            }
        }
    }

    private func activate(_ config: RemoteConfig, _ number: Int) {
        config.activate(completion: nil)
        let version = config.activeVersion ?? 0
        // Called once the cache is written, by then with this version or a newer one.
        config.activate { [weak self] _, _ in
            guard let self else { return }
            lock.withLock { durable[number] = max(durable[number], version) }
        }
    }

    func stop() {
        for app in apps { app.delete() }
        // What is left is the system's to remove.
        if !keepsDirectory { try? FileManager.default.removeItem(at: directory) }
    }

    private func setFetchTimeout(_ seconds: TimeInterval) {
        let settings = RemoteConfigSettings()
        settings.fetchTimeout = seconds
        for app in apps { RemoteConfig.remoteConfig(app: app).configSettings = settings }
    }

    func happened(_ name: String) -> Bool {
        guard name == "networkChanged" else { return false }
        for app in apps { app.networkChanged() }
        return true
    }

    var summary: JSONValue {
        let (updates, durable) = lock.withLock { (self.updates, self.durable) }
        let configs = apps.map { RemoteConfig.remoteConfig(app: $0) }
        return [
            "versions": .tally(configs.map { "\($0.activeVersion ?? 0)" }),
            "values": .tally(configs.map { $0[parameter].stringValue }),
            "updatedKeys": .tally(updates.map { $0.keys.sorted().joined(separator: " ") }),
            "activeVersions": .array(configs.map { .int($0.activeVersion ?? 0) }),
            "durableVersions": .array(durable.map { .int($0) }),
            "updatedAt": .array(updates.map { .int($0.time) }),
            "problems": .array(problems.all.map { .string($0.description) }),
        ]
    }

    /// Problems that the apps survived.
    private final class ProblemList: Sendable {
        private let lock = NSLock()
        /// Reached under `lock` only.
        nonisolated(unsafe) private var problems: [StalecastProblem] = []

        var all: [StalecastProblem] { lock.withLock { problems } }

        func add(_ problem: StalecastProblem) { lock.withLock { problems.append(problem) } }
    }
}
