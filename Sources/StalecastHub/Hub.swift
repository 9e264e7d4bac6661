package import StalecastWire
import Synchronization

/// What the hub tells a shard; a shard takes events strictly in order.
package enum HubEvent: Sendable {
    case announcement(Announcement)
    case data(DataMessage)
    /// Topics were rebound; the board replaces the shard's own.
    case rebound(TopicBoard)
}

/// The one place where changes become messages: holds what every topic announced last, encodes each message once
/// and hands it to every shard in commit order.
package final class Hub: Sendable {
    /// Takes an event without blocking; called with the hub's lock held, so that all shards see one order.
    package typealias Shard = @Sendable (HubEvent) -> Void

    private struct State {
        var board: TopicBoard
        var shards: [Shard] = []
    }

    private let state: Mutex<State>

    package init(board: TopicBoard) { state = Mutex(State(board: board)) }

    /// Adds a shard and gives it the board as of now: every later event reaches it, none is missed or doubled.
    package func attach(_ shard: @escaping Shard) -> TopicBoard {
        state.withLock { state in
            state.shards.append(shard)
            return state.board.unshared
        }
    }

    /// A copy of the state as of now.
    package var board: TopicBoard { state.withLock { $0.board.unshared } }

    /// The last sequence announced. Reading it also waits until a running announcement reached every shard.
    package var headSequence: CommitSequence { state.withLock { $0.board.headSequence } }

    /// Announces a change that is durable and visible. Changes must come in sequence order.
    ///
    /// - Parameter time: now, in nanoseconds of the monotonic clock.
    /// - Returns: how many topics announced it.
    @discardableResult
    package func announce(_ change: TemplateChange, fetchWindowMs: Int = 0, at time: UInt64) -> Int {
        state.withLock { state in
            precondition(change.sequence > state.board.headSequence, "changes are announced in commit order")
            let announcement = state.board.announcement(of: change, fetchWindowMs: fetchWindowMs, at: time)
            state.board.apply(announcement)
            for shard in state.shards { shard(.announcement(announcement)) }
            return announcement.notices.count
        }
    }

    /// Sends data to the connected subscribers of a target.
    package func send(_ message: DataMessage) {
        state.withLock { state in
            for shard in state.shards { shard(.data(message)) }
        }
    }

    /// Replaces the topics' bindings, for a reload.
    ///
    /// - Parameters:
    ///   - changes: the stored versions of all scopes, oldest first within a scope.
    ///   - head: the board's head before `changes` were read.
    /// - Returns: false, with nothing changed, when a version was announced since; read again.
    package func rebind(_ bindings: [TopicBinding], changes: [TemplateChange], readAt head: Cursor) -> Bool {
        state.withLock { state in
            guard state.board.head == head else { return false }
            state.board.rebind(bindings, changes: changes)
            for shard in state.shards { shard(.rebound(state.board.unshared)) }
            return true
        }
    }
}
