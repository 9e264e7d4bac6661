package import StalecastWire
import Synchronization

/// The one place where changes become messages: holds what every topic announced last, encodes each message once
/// and hands it to every shard in commit order.
package final class Hub: Sendable {
    /// Takes an event without blocking; called with the hub's lock held, so that all shards see one order.
    package typealias Shard = @Sendable (Event) -> Void

    private struct State {
        var board: TopicBoard
        var shards: [Shard] = []
        /// By scope, as each shard counted last.
        var subscribers: [ObjectIdentifier: [Scope: Int]] = [:]
        /// What is announced while a reload is prepared; nil when none is.
        var sinceRebinding: [TopicBoard.Announcement]?
    }

    private let state: Mutex<State>
    private let newest: Atomic<CommitSequence>
    private let herds: [Scope: HerdWindow]

    /// - Parameter herds: the scopes whose messages ask clients to spread their fetches.
    package init(board: TopicBoard, herds: [Scope: HerdWindow] = [:]) {
        state = Mutex(State(board: board))
        newest = Atomic(board.headSequence)
        self.herds = herds.filter { $0.value.budget > 0 }
    }

    /// Adds a shard and gives it the board as of now: every later event reaches it, none is missed or doubled.
    package func attach(_ shard: @escaping Shard) -> TopicBoard {
        state.withLock { state in
            state.shards.append(shard)
            return state.board.unshared
        }
    }

    // MARK: What is current

    /// A copy of the state as of now, with all histories: for shards and tests. See ``topics`` and ``head``.
    package var board: TopicBoard { state.withLock { $0.board.unshared } }

    package var head: Cursor { state.withLock { $0.board.head } }

    /// The topics clients can name, each once for every scope.
    package var topics: [Topic] {
        state.withLock { state in state.board.topics.filter { !$0.isRetired && !$0.isInvalidation } }
    }

    /// The last sequence of which anybody may have been told: known before the first shard hears of it, without a lock.
    /// A shard whose board is older waits for ``headSequence`` before it answers anything that says what is current.
    package var newestSequence: CommitSequence { newest.load(ordering: .acquiring) }

    /// The last sequence announced. Reading it also waits until a running announcement reached every shard.
    package var headSequence: CommitSequence { state.withLock { $0.board.headSequence } }

    // MARK: Announcing

    /// Announces a change that is durable and visible. Changes must come in sequence order.
    ///
    /// - Parameter time: now, in nanoseconds of the monotonic clock.
    /// - Returns: the topics that announced it.
    @discardableResult
    package func announce(_ change: TemplateChange, at time: UInt64) -> [TopicName] {
        state.withLock { state in
            precondition(change.sequence > state.board.headSequence, "changes are announced in commit order")
            let window = window(for: change, state)
            let announcement = state.board.announcement(of: change, fetchWindowMs: window, at: time)
            state.board.apply(announcement)
            state.sinceRebinding?.append(announcement)
            newest.store(change.sequence, ordering: .releasing)
            for shard in state.shards { shard(.announcement(announcement)) }
            return announcement.notices.map { state.board[$0.topic].name }
        }
    }

    /// Sends data to the connected subscribers of a target.
    package func send(_ message: DataMessage) {
        state.withLock { state in
            for shard in state.shards { shard(.data(message)) }
        }
    }

    /// Replaces the topics' bindings, for a reload. What the new topics said last is read from what was announced, so
    /// nothing shows that is not visible yet; publishes wait only for the end of it.
    package func rebind(_ bindings: [TopicBinding]) {
        var board = state.withLock { state in
            precondition(state.sinceRebinding == nil, "one reload after the other")
            state.sinceRebinding = []
            return state.board
        }
        board.rebind(bindings)
        state.withLock { state in
            for missed in state.sinceRebinding ?? [] {
                let window = missed.notices.first?.notice.message.fetchWindowMs ?? 0
                board.apply(board.announcement(of: missed.change, fetchWindowMs: window, at: missed.announcedAt))
            }
            state.sinceRebinding = nil
            state.board = board
            for shard in state.shards { shard(.rebound(board)) }
        }
    }

    // MARK: Herds

    /// Whether anybody wants to know how many subscribers a scope has; then shards say it each second.
    package var countsSubscribers: Bool { !herds.isEmpty }

    /// A shard's subscribers by scope, in place of what it said before.
    package func count(_ subscribers: [Scope: Int], of shard: AnyObject) {
        let shard = ObjectIdentifier(shard)
        state.withLock { $0.subscribers[shard] = subscribers }
    }

    private func window(for change: TemplateChange, _ state: State) -> Int {
        guard let herd = herds[change.scope] else { return 0 }
        let subscribers = state.subscribers.values.reduce(0) { $0 + ($1[change.scope] ?? 0) }
        return herd.milliseconds(subscribers: subscribers, isUrgent: change.notes.isUrgent)
    }

    /// What the hub tells a shard; a shard takes events strictly in order.
    package enum Event: Sendable {
        case announcement(TopicBoard.Announcement)
        case data(DataMessage)
        /// Topics were rebound; the board's replace the shard's own.
        case rebound(TopicBoard)
    }
}
