/// Decides which assignments a node has, takes and gives away: facts in, actions out. The living nodes determine which
/// node should have an assignment; the node that made its record has it. Times are of a clock that goes on while the
/// machine sleeps.
package struct Assignments: Sendable {
    package typealias Token = AssignmentLease.Token

    package enum Action: Sendable, Hashable {
        /// Make its record, if there is none, under the lease: ``taken(_:_:under:)`` or ``notTaken(_:)``.
        case take(String, RecordLease)
        /// The assignment is this node's: attempts may begin, each with a permit.
        case begin(String, Token)
        /// Begin nothing more, finish what is under way, remove the record: ``gaveUp(_:)``.
        case giveUp(String, Token)
        /// The assignment may be another node's: begin nothing more.
        case lost(String)
        /// Remove the record: this node made it and does not know of it. ``gaveUp(_:)``.
        case discard(String, Token)
    }

    private enum Phase {
        case taking
        case held(Token, AssignmentLease)
        case leaving
    }

    private let node: String
    private let counted: AssignmentLease
    private let calm: Duration
    private var names: Set<String> = []
    private var nodes = LivingNodes()
    private var records: [String: (token: Token, isOurs: Bool)] = [:]
    private var phases: [String: Phase] = [:]
    /// Lease, and the time at which its last successful renewal was sent; nil without a lease.
    private var current: (lease: RecordLease, sent: Duration)?
    private var isStopping = false
    /// Actions that facts have brought about already.
    private var pending: [Action] = []
    /// Owners that the nodes have at present.
    private var owners: [String: String] = [:]

    /// - Parameters:
    ///   - lease: how ownerships are counted.
    ///   - calm: for so long no node must have come or gone before an assignment moves; default 10 s.
    package init(node: String, lease: AssignmentLease = AssignmentLease(), calm: Duration = .seconds(10)) {
        self.node = node
        counted = lease
        self.calm = calm
    }

    // MARK: Facts

    /// Sets the assignments that exist.
    package mutating func wanted(_ names: Set<String>) {
        self.names = names
        owners = [:]
    }

    package mutating func heard(_ record: NodeRecord?, of id: String, now: Duration) {
        nodes.heard(record, of: id, now: now)
        owners = [:]
    }

    /// - Parameters:
    ///   - token: of the record as it is stored now; nil: there is none.
    ///   - isOurs: this run of this node made it.
    package mutating func stored(_ name: String, _ token: Token?, isOurs: Bool) {
        records[name] = token.map { ($0, isOurs) }
    }

    /// A lease was granted or renewed.
    ///
    /// - Parameter sent: when it was asked for.
    package mutating func renewed(_ lease: RecordLease, sent: Duration) {
        current = (lease, current?.lease == lease ? max(current?.sent ?? sent, sent) : sent)
        for (name, phase) in phases {
            guard case .held(let token, var lease) = phase else { continue }
            lease.renewed(sent: sent)
            phases[name] = .held(token, lease)
        }
    }

    /// The store knows the lease no more.
    package mutating func leaseEnded() {
        current = nil
        for (name, phase) in phases {
            guard case .held = phase else { continue }
            phases[name] = nil
            pending.append(.lost(name))
        }
    }

    package mutating func taken(_ name: String, _ token: Token, under lease: RecordLease) {
        guard case .taking = phases[name] else { return }
        phases[name] = nil
        // Else that lease has ended meanwhile, and the record with it, or soon.
        guard let current, current.lease == lease else { return }
        var counted = counted
        counted.taken(token, sent: current.sent)
        phases[name] = .held(token, counted)
        pending.append(.begin(name, token))
    }

    /// Handles an assignment that another node has, or whose owner is not known.
    package mutating func notTaken(_ name: String) {
        if case .taking = phases[name] { phases[name] = nil }
    }

    package mutating func gaveUp(_ name: String) {
        if case .leaving = phases[name] { phases[name] = nil }
    }

    /// Gives everything up.
    package mutating func stop() { isStopping = true }

    // MARK: What follows

    /// Actions that are due now; called after every fact, and every second.
    package mutating func due(now: Duration) -> [Action] {
        if let current, current.sent + counted.lifetime < now { leaseEnded() }
        var actions = pending
        pending = []
        let isCalm = nodes.isStable(for: calm, now: now)
        for name in names.union(phases.keys).union(records.keys).sorted() {
            if let action = next(name, isCalm) { actions.append(action) }
        }
        return actions
    }

    private mutating func next(_ name: String, _ isCalm: Bool) -> Action? {
        switch phases[name] {
        case .held(let token, _):
            // The lease ended at the store before it ended here: the record is gone, or another node's.
            guard records[name]?.token == token else {
                phases[name] = nil
                return .lost(name)
            }
            let owner = owner(of: name)
            guard isStopping || !names.contains(name) || isCalm && owner != nil && owner != node else { return nil }
            phases[name] = .leaving
            return .giveUp(name, token)
        case nil:
            if let record = records[name] {
                // Without a lease the store does not answer, and what was under the last one goes by itself.
                guard record.isOurs, !isStopping, current != nil else { return nil }
                phases[name] = .leaving
                return .discard(name, record.token)
            }
            guard !isStopping, let current, names.contains(name), owner(of: name) == node else { return nil }
            phases[name] = .taking
            return .take(name, current.lease)
        case .taking, .leaving: return nil
        }
    }

    private mutating func owner(of name: String) -> String? {
        if let known = owners[name] { return known }
        let owner = nodes.owner(of: name)
        owners[name] = owner
        return owner
    }

    // MARK: Questions

    /// The token under which an attempt that takes at most `timeout` may begin now; nil: it must not.
    package func permit(_ name: String, _ timeout: Duration, now: Duration) -> Token? {
        guard case .held(_, let lease) = phases[name] else { return nil }
        return lease.permit(timeout, now: now)
    }

    /// Counts of the assignments.
    package struct Figures: Sendable {
        /// Counts by kind, with which names of assignments begin.
        package var kinds: [String: (wanted: Int, held: Int, unowned: Int)] = [:]
        /// Time left of the ownership that ends first; nil while nothing is held.
        package var leaseLeft: Duration?
    }

    package mutating func figures(now: Duration) -> Figures {
        var figures = Figures()
        for name in names {
            var counts = figures.kinds[String(name.prefix { $0.isLetter })] ?? (0, 0, 0)
            if owner(of: name) == node { counts.wanted += 1 }
            if records[name] == nil { counts.unowned += 1 }
            if case .held(_, let lease) = phases[name], let left = lease.left(now: now) {
                counts.held += 1
                figures.leaseLeft = min(figures.leaseLeft ?? left, left)
            }
            figures.kinds[String(name.prefix { $0.isLetter })] = counts
        }
        return figures
    }

    /// Nothing is this node's, nor will be.
    package var hasStopped: Bool { isStopping && phases.isEmpty }

    package var lease: RecordLease? { current?.lease }
}
