import Foundation
import StalecastClient
import StalecastWire

/// Many ``StaleConnection``s to one server, and what became of them in figures: for tests of broken networks and
/// servers that die, which want to know where each client ended.
final class ConnectionCrowd: Crowd, Sendable {
    /// State of one connection.
    fileprivate struct Standing {
        var version: Int64 = 0
        var state = "idle"
        var cursor: String?
        var syncs = 0
        var resets = 0
        /// Versions that were not newer than the one before, without a reset in between.
        var regressions = 0
        var losses = 0
        var transports: Set<String> = []
    }

    private let lock = NSLock()
    /// Reached under `lock` only.
    nonisolated(unsafe) private var standings: [Standing]
    nonisolated(unsafe) private var connections: [StaleConnection] = []

    /// - Parameter parameters: `endpoint`, and optionally `topics`, `count`, `have`, and in milliseconds
    ///   `openingLimitMs`, `heartbeatLimitMs`, `pollWaitMs`, `reconnectDelayMs`, `longestReconnectDelayMs`,
    ///   `streamRetryMs`. With `firebase` (`project`, `namespace`, `apiKey`) Firebase's stream is used.
    init(_ parameters: JSONValue) throws(UnusableCrowd) {
        guard let endpoint = parameters["endpoint"]?.string.flatMap({ URL(string: $0) }) else {
            throw UnusableCrowd(description: "endpoint is needed, and must be a URL")
        }
        let topics = parameters["topics"]?.array?.compactMap(\.string) ?? ["PUSH_RC"]
        let count = Int(min(max(1, parameters["count"]?.int64 ?? 1), 5000))
        standings = Array(repeating: Standing(), count: count)
        connections = (0..<count).map { number in
            StaleConnection(
                endpoint: endpoint, topics: topics, have: parameters["have"]?.int64 ?? 0,
                options: Self.options(parameters)
            ) { [weak self] event in
                self?.received(event, number)
            }
        }
    }

    func start() { for connection in connections { connection.start() } }

    func stop() { for connection in connections { connection.stop() } }

    /// Something happened to the device: `networkChanged`, `background` or `foreground`.
    ///
    /// - Returns: false for anything else.
    func happened(_ name: String) -> Bool {
        switch name {
        case "networkChanged": for connection in connections { connection.networkChanged() }
        case "background": for connection in connections { connection.enterBackground() }
        case "foreground": for connection in connections { connection.enterForeground() }
        default: return false
        }
        return true
    }

    /// Numbers of connections at each version and in each state; sums of the rest.
    var summary: JSONValue {
        let standings = lock.withLock { self.standings }
        return [
            "versions": .tally(standings.map { String($0.version) }),
            "states": .tally(standings.map(\.state)),
            "transports": .tally(standings.flatMap(\.transports)),
            "synced": .int(standings.count { $0.syncs > 0 }),
            "syncs": .int(standings.reduce(0) { $0 + $1.syncs }),
            "resets": .int(standings.reduce(0) { $0 + $1.resets }),
            "regressions": .int(standings.reduce(0) { $0 + $1.regressions }),
            "losses": .int(standings.reduce(0) { $0 + $1.losses }),
        ]
    }

    private func received(_ event: ConnectionEvent, _ number: Int) {
        lock.withLock {
            switch event {
            case .stale(let notice):
                if notice.version <= standings[number].version { standings[number].regressions += 1 }
                standings[number].version = notice.version
            case .synced(let cursor):
                standings[number].cursor = cursor
                standings[number].syncs += 1
            case .reset:
                standings[number].version = 0
                standings[number].resets += 1
            case .state(let state): standings[number].take(state)
            case .unavailable, .invalidMessage, .unknownTopics: break
            }
        }
    }

    private static func options(_ parameters: JSONValue) -> ConnectionOptions {
        var options = ConnectionOptions(limits: parameters)
        if let firebase = parameters["firebase"] {
            let stream = FirebaseStreamRequest(
                project: firebase["project"]?.string ?? "demo", namespace: firebase["namespace"]?.string ?? "firebase",
                apiKey: firebase["apiKey"]?.string ?? "", appID: "1:123456789012:ios:57a1eca57",
                credentials: { ("contractServiceInstall", "token") })
            options.dialect = .firebase(stream)
        }
        return options
    }
}

extension ConnectionOptions {
    /// The defaults, but for the limits that the harness names.
    init(limits parameters: JSONValue) {
        self.init()
        take("openingLimitMs", \.openingLimit)
        take("heartbeatLimitMs", \.heartbeatLimit)
        take("pollWaitMs", \.pollWait)
        take("reconnectDelayMs", \.reconnectDelay)
        take("longestReconnectDelayMs", \.longestReconnectDelay)
        take("streamRetryMs", \.streamRetryInterval)

        func take(_ name: String, _ path: WritableKeyPath<ConnectionOptions, TimeInterval>) {
            if let value = parameters[name]?.int64 { self[keyPath: path] = TimeInterval(value) / 1000 }
        }
    }
}

extension ConnectionCrowd.Standing {
    fileprivate mutating func take(_ state: ConnectionState) {
        switch state {
        case .idle: self.state = "idle"
        case .connecting: self.state = "connecting"
        case .open(let transport):
            self.state = "open"
            transports.insert(transport)
        case .waiting:
            self.state = "waiting"
            losses += 1
        case .ended: self.state = "ended"
        }
    }
}
