import StalecastEdge
import StalecastHub
import StalecastSources
import StalecastWire
import Synchronization

/// How many subscribers every scope's messages go to, counted each second, so that a commit can set the herd window
/// without asking anybody.
final class HerdGauge: Sendable {
    private let windows: [Scope: HerdWindow]
    private let subscribers = Mutex<[Scope: Int]>([:])

    init(windows: [Scope: HerdWindow]) { self.windows = windows.filter { $0.value.budget > 0 } }

    /// Whether any scope has a window.
    var isNeeded: Bool { !windows.isEmpty }

    /// In milliseconds.
    func window(for change: TemplateChange) -> Int {
        guard let window = windows[change.scope] else { return 0 }
        let count = subscribers.withLock { $0[change.scope] ?? 0 }
        return window.milliseconds(subscribers: count, isUrgent: change.notes.isUrgent)
    }

    /// Counts until the task is cancelled.
    func run(_ edge: EdgeServer, _ hub: Hub) async {
        while !Task.isCancelled {
            let presence = await edge.presence()
            let counts = counts(presence, hub.board)
            subscribers.withLock { $0 = counts }
            try? await Task.sleep(for: .seconds(1))  // cancelled: the loop ends
        }
    }

    private func counts(_ presence: Presence, _ board: TopicBoard) -> [Scope: Int] {
        var counts: [Scope: Int] = [:]
        for topic in board.topics where !topic.isRetired {
            let listeners = Transport.allCases.reduce(0) { $0 + presence.count(topic.name, $1) }
            for scope in topic.binding.scopes { counts[scope, default: 0] += listeners }
        }
        return counts
    }
}
