import StalecastRecords
import StalecastTestSupport

/// Nodes that share assignments through a store: requests and answers that are late or lost, reads of yesterday, cuts,
/// restarts, clean stops. A step is 100 ms.
final class AssignmentWorld {
    /// Mistake that is made on purpose, so that the world must show it.
    enum Bug: CaseIterable {
        /// The lease is counted from the answer's arrival, or not at all.
        case countedFromArrival, notCounted
        /// The record goes before the attempt under way has ended.
        case handedOverEarly
    }

    private struct Record {
        let node: Int
        let instance: Int
        let lease: RecordLease
        let token: Int64
    }

    private final class Node {
        var board: Assignments
        var instance = 0
        var attempts: [String: Int] = [:]
        var cutUntil = 0
        var downUntil = 0
        var isReading = false
        var nextRenewal = 0
        /// Revisions of its own changes: a read from before says nothing of them.
        var learned: [String: Int64] = [:]

        init(_ board: Assignments) { self.board = board }
    }

    private static let names: Set<String> = ["a", "b", "c", "d"]
    private static let lease = AssignmentLease(lifetime: .seconds(9), renewal: .seconds(2), margin: .milliseconds(400))
    /// Steps: of all, and at their end without trouble.
    private static let steps = 2300
    private static let calm = 700

    private let bug: Bug?
    private var random: SeededRandom
    private var queue = EventQueue()
    private var step = 0
    private var revision: Int64 = 0
    private var records: [String: Record] = [:]
    private var leases: [RecordLease: Int] = [:]
    private var seen: [Int: Int] = [:]
    private var nodes: [Node] = []
    /// Steps in which two had an attempt of one assignment in flight.
    private(set) var overlaps = 0
    /// Attempts in all.
    private(set) var begun = 0
    private var lastHeld: [String: Int] = [:]
    /// Assignments that no node has had for the last thirty seconds.
    var idle: [String] { Self.names.filter { lastHeld[$0] ?? 0 < Self.steps - 300 }.sorted() }

    init(seed: UInt64, _ bug: Bug? = nil) {
        random = SeededRandom(seed: seed)
        self.bug = bug
        for node in 0..<3 { nodes.append(Node(Self.board(node))) }
    }

    private static func board(_ node: Int) -> Assignments {
        var board = Assignments(node: "n\(node)", lease: lease, calm: .seconds(2))
        board.wanted(names)
        return board
    }

    private func time(_ step: Int) -> Duration { .milliseconds(100 * step) }
    private func chance(_ one: Int) -> Bool { Int.random(in: 0..<one, using: &random) == 0 }
    private func steps(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &random) }
    private func later(_ steps: Int, _ happen: @escaping () -> Void) { queue.add(at: time(step + steps), happen) }

    func run() {
        for step in 1...Self.steps {
            self.step = step
            expire()
            while let event = queue.next(until: time(step)) { event.happen() }
            for node in nodes.indices { live(node) }
            for name in records.keys { lastHeld[name] = step }
            for name in Self.names where nodes.count(where: { $0.attempts[name] != nil }) > 1 { overlaps += 1 }
        }
    }

    /// A lease that is over goes, sometimes late.
    private func expire() {
        for (lease, end) in leases where end <= step && (end + 10 < step || chance(3)) {
            leases[lease] = nil
            for (name, record) in records where record.lease == lease { records[name] = nil }
            revision += 1
        }
    }

    private func live(_ index: Int) {
        let node = nodes[index]
        if step < Self.steps - Self.calm { disturb(index) }
        guard step >= node.downUntil else { return }
        for (name, end) in node.attempts where end <= step { node.attempts[name] = nil }
        if step >= node.cutUntil { seen[index] = step + 30 }
        read(index)
        if step >= node.nextRenewal { renew(index) }
        for action in node.board.due(now: time(step)) { carryOut(action, index) }
        for name in Self.names.sorted() { begin(name, index) }
    }

    private func disturb(_ index: Int) {
        let node = nodes[index]
        if chance(400) { node.cutUntil = step + steps(1...200) }
        guard chance(600) else { return }
        node.downUntil = step + steps(1...60)
        node.instance += 1
        node.board = Self.board(index)
        node.attempts = [:]
        node.learned = [:]
        node.isReading = false
        node.nextRenewal = node.downUntil
    }

    private func begin(_ name: String, _ index: Int) {
        let node = nodes[index]
        guard node.attempts[name] == nil, chance(3) else { return }
        let timeout = steps(1...30)
        let now = bug == .notCounted ? Duration.zero : time(step)
        guard node.board.permit(name, time(timeout), now: now) != nil else { return }
        begun += 1
        node.attempts[name] = step + timeout
    }

    // MARK: Calls

    /// One request and its answer; both may be late or lost. A node that is another run by then hears nothing.
    private func call(
        _ index: Int, _ request: @escaping () -> Void, answer: @escaping () -> Void, failed: @escaping () -> Void
    ) {
        let (node, instance) = (nodes[index], nodes[index].instance)
        let alive = { [self] in node.instance == instance && step >= node.downUntil }
        let isLost = step < node.cutUntil || chance(12)
        let way = chance(6) ? steps(1...40) : 1
        if !isLost { later(way, request) }
        let back = way + (chance(6) ? steps(1...40) : 1)
        let hears = !isLost && !chance(12) && back < 45
        later(hears ? back : 45) { if alive() { hears ? answer() : failed() } }
    }

    private func renew(_ index: Int) {
        let (node, sent) = (nodes[index], step)
        node.nextRenewal = step + 20
        guard let lease = node.board.lease else { return grant(index) }
        var isKnown = false
        call(index) { [self] in
            isKnown = leases[lease] != nil
            if isKnown { leases[lease] = step + 90 }
        } answer: { [self] in
            guard node.board.lease == lease else { return }
            guard isKnown else { return node.board.leaseEnded() }
            node.board.renewed(lease, sent: time(bug == .countedFromArrival ? step : sent))
        } failed: {
            node.nextRenewal = 0
        }
    }

    private func grant(_ index: Int) {
        let (node, sent) = (nodes[index], step)
        var made: RecordLease = 0
        call(index) { [self] in
            revision += 1
            made = revision
            leases[made] = step + 90
        } answer: { [self] in
            if node.board.lease == nil {
                node.board.renewed(made, sent: time(bug == .countedFromArrival ? step : sent))
            }
        } failed: {
            node.nextRenewal = 0
        }
    }

    private func read(_ index: Int) {
        let node = nodes[index]
        guard !node.isReading, chance(3) else { return }
        node.isReading = true
        var (found, live, at) = ([String: Record](), Set<Int>(), Int64(0))
        call(index) { [self] in
            (found, at) = (records, revision)
            live = Set(seen.filter { $0.value > step }.keys)
        } answer: { [self] in
            node.isReading = false
            for name in Self.names where node.learned[name] ?? 0 <= at {
                let record = found[name]
                node.board.stored(
                    name, record?.token, isOurs: record?.node == index && record?.instance == node.instance)
            }
            for other in nodes.indices {
                let record = live.contains(other) ? NodeRecord() : nil
                node.board.heard(record, of: "n\(other)", now: time(step))
            }
        } failed: {
            node.isReading = false
        }
    }

    private func carryOut(_ action: Assignments.Action, _ index: Int) {
        let node = nodes[index]
        switch action {
        case .take(let name, let lease): take(name, lease, index)
        case .begin, .lost: break
        case .giveUp(let name, let token): giveUp(name, token, node.instance, index)
        case .discard(let name, let token): remove(name, token, index)
        }
    }

    private func take(_ name: String, _ lease: RecordLease, _ index: Int) {
        let (node, instance) = (nodes[index], nodes[index].instance)
        var token: Int64?
        call(index) { [self] in
            guard records[name] == nil, leases[lease] != nil else { return }
            revision += 1
            token = revision
            records[name] = Record(node: index, instance: instance, lease: lease, token: revision)
        } answer: {
            guard let token else { return node.board.notTaken(name) }
            node.learned[name] = token
            node.board.stored(name, token, isOurs: true)
            node.board.taken(name, token, under: lease)
        } failed: {
            node.board.notTaken(name)
        }
    }

    /// Waits for what is under way.
    private func giveUp(_ name: String, _ token: Int64, _ instance: Int, _ index: Int) {
        let node = nodes[index]
        guard node.instance == instance else { return }
        if node.attempts[name] == nil || bug == .handedOverEarly { return remove(name, token, index) }
        later(1) { self.giveUp(name, token, instance, index) }
    }

    private func remove(_ name: String, _ token: Int64, _ index: Int) {
        let node = nodes[index]
        var at: Int64 = 0
        call(index) { [self] in
            if records[name]?.token == token {
                revision += 1
                records[name] = nil
            }
            at = revision
        } answer: {
            node.learned[name] = at
            node.board.stored(name, nil, isOurs: false)
            node.board.gaveUp(name)
        } failed: {
            node.board.gaveUp(name)
        }
    }
}
