import Foundation
import StalecastWire

/// A config server inside the process, for tests and previews of an app: it answers fetches, and tells listeners of
/// new versions, without a socket.
///
/// ```swift
/// let server = LocalConfigServer(values: ["welcome_text": "Hello"])
/// Stalecast.configure(options: .local(server))
/// server.publish(["welcome_text": "Bonjour"])        // update listeners are called
/// server.outage = .status(503)                       // and now fetches fail
/// ```
///
/// Every client gets the same values: there are no conditions. Versions count from 1, as a real server's do.
public final class LocalConfigServer: HTTPTransport {
    /// Failure that all fetches meet.
    public enum Outage: Sendable, Hashable {
        /// The server does not answer at all.
        case unreachable
        /// An answer of this status, and with `retryAfter` a header that asks to wait so many seconds.
        case status(Int, retryAfter: Int? = nil)
    }

    fileprivate struct Subscriber: Sendable {
        /// The newest version it was told of, or had when it came.
        var version: Int64
        let onEvent: @Sendable (ConnectionEvent) -> Void
    }

    fileprivate struct State: Sendable {
        /// The contents of all versions, the newest last.
        var versions: [[String: String]] = []
        var subscribers: [UUID: Subscriber] = [:]
        var outage: Outage?
        var lag = 0
        var losesMessages = false
        var fetchCount = 0
        var lastRequest: TransportRequest?
    }

    private let state = Locked(State())

    /// - Parameter values: version 1; nil starts without a template.
    public init(values: [String: String]? = nil) {
        if let values { state.withLock { $0.versions = [values] } }
    }

    /// The newest version; 0 for none.
    public var version: Int64 { state.withLock { Int64($0.versions.count) } }

    /// Outage with which fetches fail; nil (default) for none. Listeners stay connected.
    public var outage: Outage? {
        get { state.withLock { $0.outage } }
        set { state.withLock { $0.outage = newValue } }
    }

    /// Number of versions that fetches are behind the newest, as those of a replica that lags. Default 0.
    public var lag: Int {
        get { state.withLock { $0.lag } }
        set { state.withLock { $0.lag = max(0, newValue) } }
    }

    /// Whether listeners are cut off, as without a network. When that ends, each is told of the newest version unless it
    /// was already, which is what a reconnect does. Default false.
    public var losesMessages: Bool {
        get { state.withLock { $0.losesMessages } }
        set {
            let (late, all) = state.withLock { state in
                defer { state.losesMessages = newValue }
                let isBack = state.losesMessages && !newValue
                return isBack ? (state.late(), Array(state.subscribers.values)) : ([], [])
            }
            for (subscriber, event) in late { subscriber.onEvent(event) }
            for subscriber in all { subscriber.onEvent(.synced(cursor: nil)) }
        }
    }

    /// The fetches that reached the server, failed ones included.
    public var fetchCount: Int { state.withLock { $0.fetchCount } }

    /// The last fetch that reached the server; nil before.
    public var lastRequest: TransportRequest? { state.withLock { $0.lastRequest } }

    /// Number of connections that listen.
    public var listenerCount: Int { state.withLock { $0.subscribers.count } }

    /// Makes a new version of these values, and tells all listeners.
    ///
    /// - Parameters:
    ///   - fetchWindowMs: milliseconds over which clients are asked to spread their fetches.
    ///   - isUrgent: clients are asked not to wait.
    /// - Returns: the version's number.
    @discardableResult
    public func publish(_ values: [String: String], fetchWindowMs: Int = 0, isUrgent: Bool = false) -> Int64 {
        commit(values, type: "INCREMENTAL_UPDATE", fetchWindowMs, isUrgent)
    }

    /// Makes a new version with the values of an earlier one, and tells all listeners.
    ///
    /// - Returns: the new version's number; nil when there is no version `version`.
    @discardableResult
    public func rollback(to version: Int64) -> Int64? {
        values(ofVersion: version).map { commit($0, type: "ROLLBACK", 0, false) }
    }

    /// The values of a version; nil when there is none.
    public func values(ofVersion version: Int64) -> [String: String]? {
        guard version > 0 else { return nil }
        return state.withLock { $0.versions.dropFirst(Int(clamping: version - 1)).first }
    }

    /// Sends any other data message to all listeners.
    public func send(message: [String: String], toTopic topic: String = "PUSH_RC") {
        let subscribers = state.withLock { $0.losesMessages ? [] : Array($0.subscribers.values) }
        for subscriber in subscribers {
            subscriber.onEvent(.stale(StaleNotice(topic: topic, version: 0, data: message)))
        }
    }

    /// Answers as a server would, at once.
    public func send(_ request: TransportRequest) async throws -> TransportResponse {
        let (version, values, outage) = state.withLock { state in
            state.fetchCount += 1
            state.lastRequest = request
            let count = max(min(1, state.versions.count), state.versions.count - state.lag)
            return (Int64(count), state.versions.prefix(count).last ?? [:], state.outage)
        }
        switch outage {
        case .unreachable: throw URLError(.cannotConnectToHost)
        case .status(let status, let pause):
            let headers = pause.map { ["Retry-After": String($0)] } ?? [:]
            return TransportResponse(status: status, headers: headers)
        case nil: return Self.answer(request, version: version, values: values)
        }
    }

    // MARK: Listeners

    func subscribe(_ id: UUID, have: Int64, onEvent: @escaping @Sendable (ConnectionEvent) -> Void) {
        let late = state.withLock { state -> [(Subscriber, ConnectionEvent)]? in
            state.subscribers[id] = Subscriber(version: have, onEvent: onEvent)
            return state.losesMessages ? nil : state.late()
        }
        guard let late else { return }
        for (subscriber, event) in late { subscriber.onEvent(event) }
        onEvent(.synced(cursor: nil))
    }

    func unsubscribe(_ id: UUID) {
        // The closure ends outside the lock: what it owns may call the server in its `deinit`.
        _ = state.withLock { $0.subscribers.removeValue(forKey: id) }
    }

    private func commit(_ values: [String: String], type: String, _ fetchWindowMs: Int, _ isUrgent: Bool) -> Int64 {
        let (version, told) = state.withLock { state in
            state.versions.append(values)
            let version = Int64(state.versions.count)
            if state.losesMessages { return (version, [Subscriber]()) }
            for id in state.subscribers.keys { state.subscribers[id]?.version = version }
            return (version, Array(state.subscribers.values))
        }
        let event = ConnectionEvent.stale(Self.notice(version: version, type: type, fetchWindowMs, isUrgent))
        for subscriber in told { subscriber.onEvent(event) }
        return version
    }

    fileprivate static func notice(version: Int64, type: String, _ fetchWindowMs: Int, _ isUrgent: Bool) -> StaleNotice
    {
        let data = ["CONFIG_STATE": "STALE", "latestTemplateVersionNumber": String(version), "updateType": type]
        return StaleNotice(
            version: version, updateType: type, fetchWindowMs: fetchWindowMs, isUrgent: isUrgent, data: data)
    }

    private static func answer(
        _ request: TransportRequest, version: Int64, values: [String: String]
    ) -> TransportResponse {
        let etag = "etag-local-firebase-fetch-\(version)"
        let state =
            if version == 0 {
                "NO_TEMPLATE"
            } else if request.headers["If-None-Match"] == etag {
                "NO_CHANGE"
            } else {
                values.isEmpty ? "EMPTY_CONFIG" : "UPDATE"
            }
        let entries = values.reduce(into: JSONObject()) { $0[$1.key] = .string($1.value) }
        let body: JSONObject = [
            "templateVersion": .string(String(version)), "state": .string(state),
            "entries": state == "UPDATE" ? .object(entries) : nil,
        ]
        return TransportResponse(
            status: 200, headers: ["ETag": etag], body: Data(JSONValue.object(body).encoded()))
    }
}

extension LocalConfigServer.State {
    /// Subscribers that have not heard of the newest version, with their messages; from now on they have.
    fileprivate mutating func late() -> [(LocalConfigServer.Subscriber, ConnectionEvent)] {
        let newest = Int64(versions.count)
        let notice = LocalConfigServer.notice(version: newest, type: "INCREMENTAL_UPDATE", 0, false)
        let late = subscribers.filter { $0.value.version < newest }
        for id in late.keys { subscribers[id]?.version = newest }
        return late.values.map { ($0, .stale(notice)) }
    }
}

extension StalecastOptions {
    /// Options for a server inside the process, with a cache of its own that begins empty.
    public static func local(_ server: LocalConfigServer) -> StalecastOptions {
        var options = StalecastOptions()
        options.transport = server
        options.cacheDirectory = FileManager.default.temporaryDirectory.appendingPathComponent(
            "stalecast-local-\(UUID().uuidString)", isDirectory: true)
        return options
    }
}
