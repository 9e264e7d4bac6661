import Foundation
import StalecastClient
import StalecastWire

/// A server-sent event stream for any URL, kept up by the SDK's own parts: its attempts, its dialect, its schedule.
///
/// `@unchecked`: touched on the loop's thread only.
final class EventStream: @unchecked Sendable {
    struct Settings: Sendable {
        var request: StreamRequest
        /// Sent with the first request; nil for none.
        var lastEventID: String?
        /// The least reconnect delay, in seconds.
        var reconnectDelay: TimeInterval = 1
        /// Seconds without a byte after which the connection is given up.
        var readTimeout: TimeInterval = 75
    }

    enum Event: Sendable {
        case event(ServerSentEvent)
        case comment(String)
        /// The stream ended, or did not come up; the next attempt follows. One that the server ended in good order is no
        /// failure.
        case lost(reason: String, isFailure: Bool)
    }

    private let loop = LinkLoop.shared
    private let limits: LinkLimits
    private let onEvent: @Sendable (Event) -> Void
    private var dialect: EventStreamDialect
    private var schedule: ReconnectSchedule
    private var attempt: LinkAttempt<EventStreamDialect>?
    private var timer: Int?

    init(_ settings: Settings, onEvent: @escaping @Sendable (Event) -> Void) {
        dialect = EventStreamDialect(settings.request, lastEventID: settings.lastEventID)
        schedule = ReconnectSchedule(firstDelay: settings.reconnectDelay, longestDelay: 60)
        limits = LinkLimits(opening: settings.readTimeout, silence: settings.readTimeout)
        self.onEvent = onEvent
    }

    func start() { loop.perform { self.begin() } }

    func restart() {
        loop.perform { [self] in
            end()
            schedule = schedule.withoutFailures
            begin()
        }
    }

    func stop() { loop.perform { self.end() } }

    private func begin() {
        let attempt = LinkAttempt(dialect, limits: limits, loop: loop) { [weak self] attempt, report in
            self?.received(report, attempt)
        }
        self.attempt = attempt
        attempt.start()
    }

    private func end() {
        if let attempt { dialect = attempt.dialect }
        attempt?.cancel()
        attempt = nil
        loop.cancelTimer(timer)
    }

    private func received(_ report: LinkAttempt<EventStreamDialect>.Report, _ attempt: LinkAttempt<EventStreamDialect>)
    {
        switch report {
        case .open, .step(.pause), .answered: break
        case .step(.output(.event(let event))): onEvent(.event(event))
        case .step(.output(.comment(let text))): onEvent(.comment(text))
        case .step(.retry(let delay)): schedule.serverAsked(for: delay)
        case .dismissed: end()
        case .lost(let loss, let upFor):
            end()
            let delay = schedule.lost(loss, upFor: upFor, random: Double.random(in: 0..<1))
            timer = loop.after(delay) { [weak self] in self?.begin() }
            onEvent(.lost(reason: loss.reason, isFailure: loss.kind != .closed))
        }
    }
}
