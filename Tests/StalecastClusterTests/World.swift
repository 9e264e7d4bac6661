import StalecastCluster
import StalecastRecords
import StalecastTestSupport
import StalecastWire

/// Something that is wrong on purpose, between the machines and their surroundings; each must be found.
enum Bug: CaseIterable {
    case outOfOrder, gapSkipped, announcedBeforeApplied, staleRefusal, unknownTakenAsFailed
    case logMetadataNotCompared, headNotCompared, epochKeptAfterRestore, checkBeganBeforeRequest
}

/// One schedule of a cluster: three nodes, a log, publishers and readers, and everything that can go wrong between
/// them, decided by a seed. Time is simulated; nothing here waits.
final class World {
    let bug: Bug?
    var random: SeededRandom
    private(set) var now: Duration = .zero
    private var queue = EventQueue()
    private(set) var log: MemoryLog
    private(set) var nodes: [Node] = []
    private(set) var readers: [Reader] = []
    let history = History()
    let scopes: [Scope]
    private(set) var isCalm = false

    /// Time that a request to the log is waited for.
    static let timeout: Duration = .milliseconds(300)
    /// Six times what a proposer goes on asking for.
    static let retention: Duration = .seconds(12)
    static var limits: Proposer.Limits {
        var limits = Proposer.Limits()
        limits.answer = .seconds(1)
        limits.giveUp = .seconds(2)
        return limits
    }

    init(seed: UInt64, bug: Bug? = nil) {
        self.bug = bug
        random = SeededRandom(seed: seed)
        log = MemoryLog(epoch: .random(using: &random))
        history.holds(log.logMetadata)
        let namespaces = [Namespace.firebase, .firebaseServer]
        scopes = namespaces.map { Scope(project: .demo, namespace: $0) }
    }

    /// Lets the schedule happen.
    ///
    /// - Returns: what was wrong; empty when nothing was.
    func run() -> [String] {
        nodes = (0..<3).map { Node("n\($0)", in: self) }
        readers = (0..<4).map { _ in Reader(in: self) }
        for node in nodes { node.start() }
        planWork()
        planFaults()
        proceed(to: .seconds(30))
        isCalm = true
        freeze(false)
        for node in nodes where !node.isAlive { node.start() }
        for node in nodes { node.isCut = false }
        proceed(to: .seconds(45))
        // Each node must be able to publish again.
        for node in nodes { node.publish(scopes[0], ifMatch: nil, mustSucceed: true) }
        proceed(to: .seconds(55))
        history.judge(self)
        return history.violations
    }

    private func proceed(to end: Duration) {
        while let event = queue.next(until: end) {
            now = event.at
            event.happen()
        }
        now = end
    }

    func after(_ time: Duration, _ happen: @escaping () -> Void) { queue.add(at: now + time, happen) }

    func chance(_ probability: Double) -> Bool { Double.random(in: 0..<1, using: &random) < probability }

    func milliseconds(_ range: ClosedRange<Double>) -> Duration {
        .microseconds(Int64(Double.random(in: range, using: &random) * 1000))
    }

    // MARK: What people do

    private func planWork() {
        for _ in 0..<Int.random(in: 4...10, using: &random) {
            let time = milliseconds(0...28_000)
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                after(time + milliseconds(0...30)) { [unowned self] in publishSomething() }
            }
        }
        for _ in 0..<12 {
            after(milliseconds(0...29_000)) { [unowned self] in readers.randomElement(using: &random)!.move() }
        }
        for _ in 0..<8 {
            after(milliseconds(0...29_000)) { [unowned self] in readers.randomElement(using: &random)!.fetch() }
        }
    }

    private func publishSomething() {
        let node = nodes.randomElement(using: &random)!
        let scope = scopes.randomElement(using: &random)!
        // What a publisher has read may be of any node, or of the log's very end.
        let read = chance(0.5) ? log.current(scope) : nodes.randomElement(using: &random)!.visible[scope]
        node.publish(scope, ifMatch: chance(0.6) ? read?.change.version ?? 0 : nil)
        if chance(0.3) { askMeanwhile(scope) }
    }

    /// Fetches at one node that share looks at the log's head while something is being published.
    private func askMeanwhile(_ scope: Scope) {
        let node = nodes.randomElement(using: &random)!
        for _ in 0..<6 {
            after(milliseconds(0...12)) { [unowned self] in
                readers.randomElement(using: &random)!.fetchVerified(scope, at: node)
            }
        }
    }

    // MARK: What goes wrong

    private func planFaults() {
        plan(0...3) { $0.nodes.randomElement(using: &$0.random)!.crash() }
        plan(0...3) { $0.nodes.randomElement(using: &$0.random)!.watchBreaks() }
        plan(0...2) { world in
            let node = world.nodes.randomElement(using: &world.random)!
            node.isCut = true
            world.after(world.milliseconds(50...4000)) { node.isCut = false }
        }
        plan(0...4) {
            $0.log.prune(World.retention, now: $0.now)
            $0.history.holds($0.log.logMetadata)
        }
        plan(0...1) { world in
            let logMetadata = world.log.logMetadata
            _ = world.log.amend(logMetadata, to: logMetadata.renewed(.random(using: &world.random)))
            world.history.holds(world.log.logMetadata)
            world.ring(.other)
        }
        // The log stands still for a moment while nodes publish.
        plan(0...3) { world in
            world.publishSomething()
            world.after(world.milliseconds(0...20)) { world.freeze(true) }
            world.after(world.milliseconds(30...600)) { world.freeze(false) }
        }
        if chance(0.35) { plan(1...1) { $0.loseTheEnd() } }
    }

    private func freeze(_ isFrozen: Bool) {
        var logMetadata = log.logMetadata
        logMetadata.isFrozen = isFrozen
        _ = log.amend(log.logMetadata, to: logMetadata)
        ring(.other)
    }

    private func plan(_ times: ClosedRange<Int>, _ fault: @escaping (World) -> Void) {
        for _ in 0..<Int.random(in: times, using: &random) {
            after(milliseconds(100...25_000)) { [unowned self] in fault(self) }
        }
    }

    /// Takes a snapshot, works on, restores it, and works on before all nodes have noticed.
    private func loseTheEnd() {
        let snapshot = log
        for _ in 0..<Int.random(in: 1...3, using: &random) {
            after(milliseconds(0...400)) { [unowned self] in publishSomething() }
        }
        after(milliseconds(chance(0.2) ? 0...4000 : 410...600)) { [unowned self] in
            history.restored(lost: log.restore(snapshot), at: now)
            for node in nodes { node.watchBreaks(within: 1500) }
            for _ in 0..<5 { after(milliseconds(0...1500)) { [unowned self] in publishSomething() } }
        }
    }

    // MARK: The way to the log

    /// Sends a request to the log: it may be refused, lost, late or done twice, and so may its answer.
    func request<Answer>(
        of node: Node, _ work: @escaping (inout MemoryLog) -> Answer,
        _ done: @escaping (Result<Answer, LogError>) -> Void
    ) {
        let incarnation = node.incarnation
        var isAnswered = false
        func answer(_ result: Result<Answer, LogError>, after time: Duration) {
            after(time) {
                guard !isAnswered, node.incarnation == incarnation, node.isAlive else { return }
                isAnswered = true
                done(result)
            }
        }
        answer(.failure(.unknown("no answer")), after: Self.timeout)
        if isCalm { return arrive(work, after: milliseconds(0.2...1)) { answer($0, after: .microseconds(300)) } }
        if node.isCut ? chance(0.3) : chance(0.02) { return answer(.failure(.notDone("refused")), after: .zero) }
        let isLate = chance(0.06)
        if !node.isCut, !chance(0.05) {
            arrive(work, after: isLate ? milliseconds(1...900) : milliseconds(0.2...3)) { [unowned self] result in
                if !chance(0.06) { answer(result, after: chance(0.05) ? milliseconds(1...900) : milliseconds(0.2...3)) }
            }
        }
        if chance(0.04) { arrive(work, after: milliseconds(1...6000)) { _ in } }
    }

    private func arrive<Answer>(
        _ work: @escaping (inout MemoryLog) -> Answer, after time: Duration,
        _ done: @escaping (Result<Answer, LogError>) -> Void
    ) {
        let generation = log.generation
        after(time) { [unowned self] in
            // Sent to servers that are no more.
            guard log.generation == generation else { return }
            let (head, logMetadata) = (log.head, log.logMetadata)
            let answer = work(&log)
            if log.head != head, logMetadata.isFrozen { history.blame("an entry in a frozen log") }
            if log.head != head, let entry = log.lineage.last {
                history.committed(entry, at: now)
                ring(.entry(entry))
            }
            if log.logMetadata != logMetadata {
                history.holds(log.logMetadata)
                ring(.other)
            }
            done(.success(answer))
        }
    }

    /// Rings at every node: in order mostly, or late, twice, never.
    private func ring(_ watchEvent: WatchEvent) {
        for node in nodes where node.isAlive && !node.isCut {
            let (incarnation, session) = (node.incarnation, node.watchSession)
            let times = isCalm ? 1 : chance(0.06) ? 0 : chance(0.05) ? 2 : 1
            var heard = Array(repeating: watchEvent, count: times)
            // A second watch beside this one is opened again.
            if !isCalm && chance(0.02) { heard.append(.opened) }
            for each in heard {
                after(!isCalm && chance(0.1) ? milliseconds(1...400) : .milliseconds(1)) {
                    if node.incarnation == incarnation, node.isAlive { node.received(each, in: session) }
                }
            }
        }
    }
}
