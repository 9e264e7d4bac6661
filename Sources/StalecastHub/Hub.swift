package import StalecastWire
import Synchronization

/// The one place where changes become messages: holds what every topic announced last, encodes each message once
/// and hands it to every listener in commit order.
package final class Hub: Sendable {
    /// Takes an event without blocking; called with the hub's lock held, so that all listeners see one order.
    package typealias Listener = @Sendable (Event) -> Void

    private struct State {
        var board: TopicBoard
        var listeners: [Listener] = []
        /// Subscribers by scope, as each listener counted last: all, and Firebase's streams.
        var subscribers: [ObjectIdentifier: (all: [Scope: Int], firebase: [Scope: Int])] = [:]
        /// Fetch behaviour after earlier versions, for scopes with a fetch budget.
        var experience: [Scope: HerdExperience] = [:]
        /// Announcements while a reload is prepared; nil when none is.
        var sinceRebinding: [Missed]?
    }

    fileprivate enum Missed {
        case announcement(TopicBoard.Announcement)
        case split(Scope, ReleaseCut)
    }

    private let state: Mutex<State>
    private let newest: Atomic<CommitSequence>
    private let herds: [Scope: HerdWindow]
    package let propagation: RolloutTracker
    package let releases = ReleaseWatch()

    /// - Parameter herds: the scopes whose messages ask clients to spread their fetches.
    package init(
        board: TopicBoard, herds: [Scope: HerdWindow] = [:], propagation: RolloutTracker = RolloutTracker()
    ) {
        self.propagation = propagation
        state = Mutex(State(board: board))
        newest = Atomic(board.headSequence)
        self.herds = herds.filter { $0.value.budget > 0 }
    }

    /// Adds a listener (a shard, or deliveries) and gives it the board as of now: every later event reaches it, none is
    /// missed or doubled.
    package func attach(_ listener: @escaping Listener) -> TopicBoard {
        state.withLock { state in
            state.listeners.append(listener)
            return state.board.unshared
        }
    }

    // MARK: What is current

    /// A copy of the state as of now, with all histories: for shards and tests. See ``topics`` and ``head``.
    package var board: TopicBoard { state.withLock { $0.board.unshared } }

    package var head: Cursor { state.withLock { $0.board.head } }

    /// The topics clients can name, each once for every scope.
    package var topics: [Topic] {
        state.withLock { state in state.board.namedTopics }
    }

    /// Names with their bindings, in the order of names.
    package var bindings: [TopicBinding] { state.withLock { $0.board.bindings } }

    /// The newest sequence that a client may have been told of. It is set before the first listener gets the
    /// announcement, and is read without a lock. A shard whose board is older waits for ``headSequence`` before it
    /// answers a request for the current state.
    package var newestSequence: CommitSequence { newest.load(ordering: .acquiring) }

    /// The last sequence announced. Reading it also waits until a running announcement reached every listener.
    package var headSequence: CommitSequence { state.withLock { $0.board.headSequence } }

    // MARK: Announcing

    /// Announces a change that is durable and visible. Changes must come in sequence order.
    ///
    /// - Parameters:
    ///   - audience: the stages of a release that are told; nil tells all. See ``split(_:by:)``.
    ///   - time: now, in nanoseconds of the monotonic clock.
    /// - Returns: the topics that announced it.
    @discardableResult
    package func announce(_ change: TemplateChange, to audience: ReleaseAudience? = nil, at time: UInt64) -> [TopicName]
    {
        state.withLock { state in
            precondition(change.sequence > state.board.headSequence, "changes are announced in commit order")
            teach(change.scope, isOver: true, &state)
            let herd = herd(of: change.scope, isUrgent: change.notes.isUrgent, state)
            // In a cluster another node chose the window, and may not have counted the clients of this one.
            let window = max(change.notes.fetchWindowMs ?? 0, herd?.windowMs ?? 0)
            // A rollback repairs a bad version, so no stream waits for its turn.
            let isCure = change.metadata.updateType == .rollback
            let isPaced = !isCure && herd?.pacedOverMs ?? 0 > 0
            let ratio = propagation.reportRatio(change.scope, fetchWindowMs: window)
            let announcement = state.board.announcement(
                of: change, to: audience, fetchWindowMs: window, reportRatio: ratio,
                pacedOverMs: isPaced ? window : 0, at: time)
            state.board.apply(announcement)
            state.sinceRebinding?.append(.announcement(announcement))
            // Before the listeners: a shard that answers a request meanwhile sees that its board is behind, and waits.
            newest.store(change.sequence, ordering: .releasing)
            propagation.announced(announcement)
            for listener in state.listeners { listener(.announcement(announcement)) }
            var seen: Set<TopicName> = []
            return announcement.encodedMessages.map { state.board[$0.topic].name }.filter { seen.insert($0).inserted }
        }
    }

    /// Takes note of a durable commit that no client is told of, so that later cursors include its sequence.
    ///
    /// - Parameter change: the version that the commit is about, at the commit's sequence.
    package func pass(_ change: TemplateChange, at time: UInt64) {
        state.withLock { state in
            precondition(change.sequence > state.board.headSequence, "changes are announced in commit order")
            let announcement = TopicBoard.Announcement(
                change: change, audience: .empty, encodedMessages: [], pacedOverMs: 0, announcedAt: time)
            state.board.apply(announcement)
            state.sinceRebinding?.append(.announcement(announcement))
            newest.store(change.sequence, ordering: .releasing)
            for listener in state.listeners { listener(.announcement(announcement)) }
        }
    }

    /// Splits a scope's subscribers into the stages of a release, before its first stage is announced.
    package func split(_ scope: Scope, by cut: ReleaseCut) {
        state.withLock { state in
            state.board.split(scope, by: cut)
            state.sinceRebinding?.append(.split(scope, cut))
            for listener in state.listeners { listener(.split(scope, state.board)) }
        }
    }

    package func send(_ message: DataMessage) {
        state.withLock { state in
            for listener in state.listeners { listener(.data(message)) }
        }
    }

    /// Replaces the topics' bindings after a reload. New topics start from the announced history, so nothing appears
    /// that is not visible yet. Publishes wait only for the last step.
    package func rebind(_ bindings: [TopicBinding]) {
        var board = state.withLock { state in
            precondition(state.sinceRebinding == nil, "one reload after the other")
            state.sinceRebinding = []
            return state.board
        }
        // Runs without the lock: many scopes and patterns take a moment, in which publishes go on.
        board.rebind(bindings)
        state.withLock { state in
            for missed in state.sinceRebinding ?? [] { board.take(missed) }
            state.sinceRebinding = nil
            state.board = board
            for listener in state.listeners { listener(.rebound(board)) }
        }
    }

    // MARK: Herds

    /// Whether a scope has a fetch budget, which depends on its number of subscribers: shards then report it each
    /// second.
    package var countsSubscribers: Bool { !herds.isEmpty }

    /// Replaces a shard's counts of subscribers by scope: of all, and of Firebase's streams among them.
    package func count(_ subscribers: [Scope: Int], firebase: [Scope: Int] = [:], of shard: AnyObject) {
        let shard = ObjectIdentifier(shard)
        state.withLock { $0.subscribers[shard] = (subscribers, firebase) }
    }

    private func teach(_ scope: Scope, isOver: Bool, _ state: inout State) {
        guard let herd = herds[scope] else { return }
        propagation.teach(&state.experience[scope, default: HerdExperience()], of: herd, in: scope, isOver: isOver)
    }

    private func herd(of scope: Scope, isUrgent: Bool, _ state: State) -> Herd? {
        guard let herd = herds[scope] else { return nil }
        let subscribers = state.subscribers.values.reduce(0) { $0 + ($1.all[scope] ?? 0) }
        let streams = state.subscribers.values.reduce(0) { $0 + ($1.firebase[scope] ?? 0) }
        let experience = state.experience[scope] ?? HerdExperience()
        let window = herd.milliseconds(subscribers: subscribers, isUrgent: isUrgent, experience: experience)
        let own = herd.milliseconds(subscribers: streams, isUrgent: isUrgent, experience: experience)
        return Herd(
            windowMs: window, pacedOverMs: own > 0 ? window : 0, subscribers: subscribers,
            configuredBudget: herd.budget, budget: experience.budget(of: herd),
            fetchesPerStream: experience.fetchesPerStream)
    }

    /// Time over which a change that is announced now would ask clients to spread their fetches, in milliseconds.
    package func window(of scope: Scope, isUrgent: Bool) -> Int {
        state.withLock { state in
            teach(scope, isOver: false, &state)
            return herd(of: scope, isUrgent: isUrgent, state)?.windowMs ?? 0
        }
    }

    /// Figures that an announcement would use now; nil for a scope without a budget.
    package func herd(of scope: Scope) -> Herd? {
        state.withLock { state in
            teach(scope, isOver: false, &state)
            return herd(of: scope, isUrgent: false, state)
        }
    }

    /// The herd of a scope as of now, and what was learned of it.
    package struct Herd: Sendable, Hashable {
        /// Time over which a message would ask clients to spread their fetches, in milliseconds.
        package let windowMs: Int
        /// Time over which Firebase's streams are told, because their SDKs fetch at once; 0 where all are told at once.
        package let pacedOverMs: Int
        /// Subscribers as the loops counted last.
        package let subscribers: Int
        /// Fetches per second: as configured, and what experience made of it.
        package let configuredBudget: Int
        package let budget: Int
        /// nil while nothing was measured.
        package let fetchesPerStream: Double?
    }

    /// Event for a listener, which takes events strictly in order.
    package enum Event: Sendable {
        case announcement(TopicBoard.Announcement)
        case data(DataMessage)
        /// Topics were rebound; the board's replace the listener's own.
        case rebound(TopicBoard)
        /// A release split a scope's topics; the board's replace the listener's own, and members move to their stage's.
        case split(Scope, TopicBoard)
    }
}

extension TopicBoard {
    fileprivate mutating func take(_ missed: Hub.Missed) {
        switch missed {
        case .split(let scope, let cut): split(scope, by: cut)
        case .announcement(let missed):
            let asked = missed.encodedMessages.first?.encodedMessage.message
            apply(
                announcement(
                    of: missed.change, to: missed.audience, fetchWindowMs: asked?.fetchWindowMs ?? 0,
                    reportRatio: asked?.reportRatio ?? 1, at: missed.announcedAt))
        }
    }
}
