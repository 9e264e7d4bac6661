import Foundation
import StalecastClient
import Synchronization

/// Events that a connection reported, in order.
final class ConnectionLog: Sendable {
    private let log = Mutex<[ConnectionEvent]>([])

    var hear: @Sendable (ConnectionEvent) -> Void { { event in self.log.withLock { $0.append(event) } } }

    var events: [ConnectionEvent] { log.withLock { $0 } }

    /// Versions of the stale notices.
    var versions: [Int64] {
        events.compactMap { if case .stale(let notice) = $0 { notice.version } else { nil } }
    }

    var notices: [StaleNotice] { events.compactMap { if case .stale(let notice) = $0 { notice } else { nil } } }

    var cursors: [String?] { events.compactMap { if case .synced(let cursor) = $0 { cursor } else { nil } } }

    var states: [ConnectionState] { events.compactMap { if case .state(let state) = $0 { state } else { nil } } }

    /// Reasons of waiting, in order.
    var losses: [String] { states.compactMap { if case .waiting(_, let reason) = $0 { reason } else { nil } } }
}

extension StaleConnection {
    /// A connection to a test server, with delays of milliseconds unless `edit` says otherwise.
    static func test(
        _ server: StreamServer, _ log: ConnectionLog, topics: [String] = ["PUSH_RC"], have: Int64? = nil,
        cursor: String? = nil, edit: (inout ConnectionOptions) -> Void = { _ in }
    ) -> StaleConnection {
        var options = ConnectionOptions()
        options.reconnectDelay = 0.02
        options.longestReconnectDelay = 0.1
        // The servers of tests send no heartbeats, and on a busy machine a test may wait long between two messages.
        options.openingLimit = 600
        options.heartbeatLimit = 600
        edit(&options)
        return StaleConnection(
            endpoint: server.url, topics: topics, have: have, cursor: cursor, options: options, onEvent: log.hear)
    }
}

/// A message as the server sends it.
func staleEvent(_ version: Int, cursor: String? = nil, topic: String = "PUSH_RC") -> String {
    let id = cursor.map { "id: \($0)\n" } ?? ""
    return "\(id)data: \(staleJSON(version, topic: topic))\n\n"
}

func staleJSON(_ version: Int, topic: String = "PUSH_RC") -> String {
    #"{"CONFIG_STATE":"STALE","type":"refetchEvaluation","topic":"\#(topic)","project":"demo","namespace":"firebase","#
        + #""latestTemplateVersionNumber":"\#(version)","etag":"etag-\#(version)","updateType":"ROLLBACK","#
        + #""sinceTemplateVersionNumber":"1","changedKeys":["a","b"],"fetchWindowMs":250}"#
}

func syncedEvent(_ cursor: String) -> String { "event: synced\nid: \(cursor)\ndata: {\"cursor\":\"\(cursor)\"}\n\n" }
