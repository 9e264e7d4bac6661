import StalecastWire

/// Tries whether a stream comes through while long-poll does the work: one attempt, which has passed once the server's
/// `synced` arrived.
///
/// `@unchecked`: touched on the loop's thread only.
final class StreamProbe: @unchecked Sendable {
    private(set) var isTrying = true
    private(set) var events: StaleLink.Events?
    /// What the stream said up to `synced`.
    private(set) var held: [ServerSentEvent] = []
    private let onResult: @Sendable (_ passed: Bool) -> Void

    init(onResult: @escaping @Sendable (_ passed: Bool) -> Void) { self.onResult = onResult }

    func start(_ events: StaleLink.Events) {
        self.events = events
        events.start()
    }

    func received(_ report: StaleLink.Events.Report) {
        switch report {
        case .connecting, .open, .output(.comment): break
        case .output(.event(let event)):
            held.append(event)
            if event.type == "synced" { end(passed: true) }
        case .lost, .dismissed: end(passed: false)
        }
    }

    private func end(passed: Bool) {
        isTrying = false
        onResult(passed)
    }
}
