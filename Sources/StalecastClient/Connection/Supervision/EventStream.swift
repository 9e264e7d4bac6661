package import Foundation
package import StalecastWire

/// A server-sent event stream for any URL, kept up as ``StaleConnection`` keeps its own: by the same supervisor.
package final class EventStream: Sendable {
    package struct Settings: Sendable {
        package var request: StreamRequest
        /// Sent with the first request; nil for none.
        package var lastEventID: String?
        /// Twice the mean of the first reconnect delay, in seconds. Default 1.
        package var reconnectDelay: TimeInterval = 1
        /// The longest delay of ours, in seconds. Default 60.
        package var longestReconnectDelay: TimeInterval = 60
        /// Without a byte for so many seconds the connection is given up. Default 75.
        package var readTimeout: TimeInterval = 75

        package init(request: StreamRequest) { self.request = request }
    }

    package enum Event: Sendable, Hashable {
        case open
        case event(ServerSentEvent)
        case comment(String)
        /// The stream ended, or did not come up; the next attempt follows. A stream that the server ended in good order
        /// is no failure.
        case lost(reason: String, isFailure: Bool, delay: TimeInterval)
        /// 204: there will be no further attempt.
        case dismissed
    }

    private let loop = LinkLoop.shared
    private let supervisor: LinkSupervisor<EventStreamDialect>

    /// - Parameter onEvent: called in order, one at a time, on a thread that all connections share: it must be quick.
    package init(_ settings: Settings, onEvent: @escaping @Sendable (Event) -> Void) {
        let schedule = ReconnectSchedule(
            firstDelay: settings.reconnectDelay, longestDelay: settings.longestReconnectDelay)
        let limits = LinkLimits(opening: settings.readTimeout, silence: settings.readTimeout)
        let dialect = EventStreamDialect(settings.request, lastEventID: settings.lastEventID)
        supervisor = LinkSupervisor(
            dialect, schedule: schedule, limits: limits, loop: loop, random: { Double.random(in: 0..<1) }
        ) { report in
            switch report {
            case .connecting: break
            case .open: onEvent(.open)
            case .output(.event(let event)): onEvent(.event(event))
            case .output(.comment(let text)): onEvent(.comment(text))
            case .lost(let loss, _, _, let delay):
                onEvent(.lost(reason: loss.reason, isFailure: loss.kind != .closed, delay: delay))
            case .dismissed: onEvent(.dismissed)
            }
        }
    }

    deinit {
        let supervisor = supervisor
        loop.perform { supervisor.stop() }
    }

    package func start() { loop.perform { [supervisor] in supervisor.start() } }

    /// Drops the connection and opens another, at once.
    package func restart() { loop.perform { [supervisor] in supervisor.reconnect() } }

    package func stop() { loop.perform { [supervisor] in supervisor.stop() } }
}
