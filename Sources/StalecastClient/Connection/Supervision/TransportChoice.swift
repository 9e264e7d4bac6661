package import Foundation

/// Chooses the transport that is worth trying, judged by how the last ones ended.
///
/// A stream that is held back (silence twice in a row) or replaced by another server's page makes way for long-poll; a
/// long-poll that fails again and again makes way for the stream, so that nothing is tried for ever.
package struct TransportChoice: Sendable {
    private static let silencesToPoll = 2
    private static let failuresToEvents = 3

    /// `events` or `poll`.
    package private(set) var transport = ConnectionMachine.Transport.events
    /// Seconds until a stream is tried beside the long-poll; doubles with each vain try.
    package private(set) var probeDelay: TimeInterval
    private let firstProbeDelay: TimeInterval
    /// Longest wait before a stream is tried again, in seconds, unless the first delay is longer.
    private static let longestProbeDelay: TimeInterval = 900

    private var silences = 0
    private var pollFailures = 0

    package init(probeDelay: TimeInterval) {
        firstProbeDelay = probeDelay
        self.probeDelay = probeDelay
    }

    /// A stream ended, or did not come up.
    ///
    /// - Returns: whether to change to long-poll.
    package mutating func eventsLost(_ kind: LinkLoss.Kind, upFor: TimeInterval?) -> Bool {
        if let upFor, upFor >= ReconnectSchedule.stableAfter, kind != .silent {
            (silences, probeDelay) = (0, firstProbeDelay)
        }
        switch kind {
        case .silent: silences += 1
        // Another server's page is proof at once; one silence may be chance.
        case .foreign: silences = Self.silencesToPoll
        case .broken, .closed, .refused, .dismissed: break
        }
        guard silences >= Self.silencesToPoll else { return false }
        (transport, pollFailures, silences) = (.poll, 0, 0)
        return true
    }

    /// - Returns: whether to change to the stream.
    package mutating func pollLost() -> Bool {
        pollFailures += 1
        guard pollFailures >= Self.failuresToEvents else { return false }
        transport = .events
        return true
    }

    package mutating func pollAnswered() { pollFailures = 0 }

    /// A stream was tried beside the long-poll and failed.
    package mutating func probeFailed() {
        probeDelay = max(firstProbeDelay, min(probeDelay * 2, Self.longestProbeDelay))
    }

    /// A stream that was tried beside the long-poll came through: it is used from now on.
    package mutating func probeSucceeded() {
        transport = .events
        // Should it be held back again, the next try comes later.
        probeFailed()
    }

    /// Forgets what was learnt about the former network.
    package mutating func networkChanged() { self = TransportChoice(probeDelay: firstProbeDelay) }
}
