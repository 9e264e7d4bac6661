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
    /// Why fetches fail.
    public enum Outage: Sendable, Hashable {
        /// There is no answer at all.
        case unreachable
        /// An answer of this status, and with `retryAfter` a header that asks to wait so many seconds.
        case status(Int, retryAfter: Int? = nil)
    }

    private struct State: Sendable {
        /// The contents of all versions, the newest last.
        var versions: [[String: String]] = []
        var subscribers: [UUID: @Sendable (ConnectionEvent) -> Void] = [:]
        var outage: Outage?
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

    /// How fetches fail; nil (default) for not at all. Listeners stay connected.
    public var outage: Outage? {
        get { state.withLock { $0.outage } }
        set { state.withLock { $0.outage = newValue } }
    }

    /// The fetches that reached the server, failed ones included.
    public var fetchCount: Int { state.withLock { $0.fetchCount } }

    /// The last fetch that reached the server; nil before.
    public var lastRequest: TransportRequest? { state.withLock { $0.lastRequest } }

    /// How many connections listen.
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
        let values = state.withLock { state in
            (1...Int64(max(1, state.versions.count))).contains(version) ? state.versions[Int(version - 1)] : nil
        }
        return values.map { commit($0, type: "ROLLBACK", 0, false) }
    }

    /// The values of a version; nil when there is none.
    public func values(ofVersion version: Int64) -> [String: String]? {
        state.withLock { state in
            state.versions.indices.contains(Int(version) - 1) ? state.versions[Int(version) - 1] : nil
        }
    }

    /// Sends any other data message to all listeners.
    public func send(message: [String: String], toTopic topic: String = "PUSH_RC") {
        announce(.stale(StaleNotice(topic: topic, version: 0, data: message)))
    }

    /// Answers as a server would, at once.
    public func send(_ request: TransportRequest) async throws -> TransportResponse {
        let (version, values, outage) = state.withLock { state in
            state.fetchCount += 1
            state.lastRequest = request
            return (Int64(state.versions.count), state.versions.last ?? [:], state.outage)
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
        let version = state.withLock { state in
            state.subscribers[id] = onEvent
            return Int64(state.versions.count)
        }
        if version > have { onEvent(.stale(Self.notice(version: version, type: "INCREMENTAL_UPDATE", 0, false))) }
        onEvent(.synced(cursor: nil))
    }

    func unsubscribe(_ id: UUID) {
        state.withLock { $0.subscribers[id] = nil }
    }

    private func commit(_ values: [String: String], type: String, _ fetchWindowMs: Int, _ isUrgent: Bool) -> Int64 {
        let version = state.withLock { state in
            state.versions.append(values)
            return Int64(state.versions.count)
        }
        announce(.stale(Self.notice(version: version, type: type, fetchWindowMs, isUrgent)))
        return version
    }

    private func announce(_ event: ConnectionEvent) {
        for subscriber in state.withLock({ Array($0.subscribers.values) }) { subscriber(event) }
    }

    private static func notice(version: Int64, type: String, _ fetchWindowMs: Int, _ isUrgent: Bool) -> StaleNotice {
        let data = ["CONFIG_STATE": "STALE", "latestTemplateVersionNumber": String(version), "updateType": type]
        return StaleNotice(
            version: version, updateType: type, fetchWindowMs: fetchWindowMs, isUrgent: isUrgent, data: data)
    }

    private static func answer(
        _ request: TransportRequest, version: Int64, values: [String: String]
    ) -> TransportResponse {
        let etag = "etag-local-firebase-fetch-\(version)"
        var body: JSONObject = ["templateVersion": .string(String(version))]
        if version == 0 {
            body["state"] = "NO_TEMPLATE"
        } else if request.headers["If-None-Match"] == etag {
            body["state"] = "NO_CHANGE"
        } else if values.isEmpty {
            body["state"] = "EMPTY_CONFIG"
        } else {
            body["state"] = "UPDATE"
            var entries = JSONObject()
            for (key, value) in values { entries[key] = .string(value) }
            body["entries"] = .object(entries)
        }
        return TransportResponse(
            status: 200, headers: ["ETag": etag], body: Data(JSONValue.object(body).encoded()))
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
