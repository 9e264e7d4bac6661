import StalecastCluster
import StalecastRecords
import StalecastWire

/// A daemon of the simulated cluster: the machines as they are, and around them a replica, its subscribers, and
/// crashes.
final class Node {
    let name: String
    private unowned let world: World
    private(set) var isAlive = false
    private(set) var incarnation = 0
    /// True when the node is cut off from the log.
    var isCut = false

    // What survives a crash.
    private(set) var epoch: Epoch?
    private(set) var replica: [LogEntry] = []
    private var isWhole = false

    private(set) var visible: [Scope: LogEntry] = [:]
    private(set) var follower = Follower(epoch: nil, head: .empty, isWhole: false)
    /// The session of the watch that is in place.
    private(set) var watchSession = 0
    private var checks = HeadChecks()
    private var publishes: [PublishID: Run] = [:]
    private var tickets: [UInt64: (Bool) -> Void] = [:]
    private var lastTicket: UInt64 = 0
    /// Callers that join a check that has begun, with the planted bug.
    private var stowaways: [(Bool) -> Void]?

    /// A publish under way.
    private struct Run {
        var proposer: Proposer
        let scope: Scope
        let ifMatch: VersionNumber?
    }

    init(_ name: String, in world: World) {
        self.name = name
        self.world = world
    }

    var head: LogHead { replica.last.map { LogHead(of: $0) } ?? .empty }

    // MARK: Life

    func start() {
        isAlive = true
        follower = Follower(epoch: epoch, head: head, isWhole: isWhole)
        perform(follower.begin())
        tick(incarnation)
    }

    func crash() {
        guard isAlive else { return }
        isAlive = false
        incarnation += 1
        for publish in publishes.keys { world.history.hungUp(publish) }
        (publishes, tickets, checks, stowaways) = ([:], [:], HeadChecks(), nil)
        for reader in world.readers where reader.node === self { reader.hungUp() }
        world.after(world.milliseconds(1...3000)) { [unowned self] in if !isAlive { start() } }
    }

    /// - Parameter time: until it is noticed, in milliseconds, at most.
    func watchBreaks(within time: Double = 100) {
        let (incarnation, session) = (incarnation, watchSession)
        world.after(world.milliseconds(0...time)) { [unowned self] in
            if isAlive, incarnation == self.incarnation { perform(follower.watchEnded(session)) }
        }
    }

    /// The look at the head every 5 s that finds what a watch does not bring.
    private func tick(_ incarnation: Int) {
        world.after(world.milliseconds(4500...5500)) { [unowned self] in
            guard isAlive, incarnation == self.incarnation else { return }
            verified { [unowned self] isCurrent in if !isCurrent { perform(follower.distrustWatch()) } }
            tick(incarnation)
        }
    }

    // MARK: Following

    func received(_ watchEvent: WatchEvent, in session: Int) {
        if world.bug == .gapSkipped, case .entry(let entry) = watchEvent, entry.sequence > head.sequence + 1,
            epoch != nil
        {
            install(entry)
            follower = Follower(epoch: epoch, head: head, isWhole: isWhole)
            return perform(follower.begin())
        }
        perform(follower.received(watchEvent, in: session))
    }

    private func perform(_ actions: [Follower.Action]) {
        isWhole = follower.isWhole
        actions.forEach(perform)
    }

    private func perform(_ action: Follower.Action) {
        switch action {
        case .watch(let session): watch(session)
        case .read(let id, let after, let limit): read(id, after, limit)
        case .apply(let entries): apply(entries)
        case .rebuild(let logMetadata):
            world.after(world.milliseconds(0.1...5), alive { [unowned self] in beginAnew(logMetadata) })
        case .renewEpoch(let logMetadata, let head):
            let new = logMetadata.renewed(.random(using: &world.random))
            world.request(of: self, { $0.amend(logMetadata, to: new, at: head) }) { [unowned self] _ in
                perform(follower.renewed())
            }
        case .caughtUp(let tickets, let isDone):
            for ticket in tickets { self.tickets.removeValue(forKey: ticket)?(isDone) }
        case .retry:
            world.after(world.milliseconds(0...200), alive { [unowned self] in perform(follower.due()) })
        }
    }

    private func watch(_ session: Int) {
        world.request(of: self, { _ in }) { [unowned self] result in
            guard session == follower.session else { return }
            guard case .success = result else { return perform(follower.watchEnded(session)) }
            watchSession = session
            perform(follower.received(.opened, in: session))
        }
    }

    private func read(_ id: Int, _ after: CommitSequence, _ limit: Int) {
        let own = replica.last
        let bug = world.bug
        let page: (MemoryLog) -> LogPage = { log in
            let page = log.page(after: after, limit: limit)
            guard bug == .epochKeptAfterRestore, let own else { return page }
            return page.pretending(toFollow: own)
        }
        world.request(of: self, { page($0) }) { [unowned self] in perform(follower.pageRead(id, $0)) }
    }

    /// The process begins again with an empty replica; before it ends, publishers get their answers.
    private func beginAnew(_ logMetadata: LogMetadata) {
        for publish in publishes.keys.sorted(by: { $0.description < $1.description }) {
            drive(publish) { $0.historyEnded() }
        }
        for publish in publishes.keys { world.history.hungUp(publish) }
        incarnation += 1
        (publishes, tickets, checks, stowaways) = ([:], [:], HeadChecks(), nil)
        (epoch, replica, visible, isWhole) = (logMetadata.epoch, [], [:], false)
        for reader in world.readers where reader.node === self { reader.reset() }
        start()
    }

    private func apply(_ entries: [LogEntry]) {
        let entries = world.bug == .outOfOrder ? entries.reversed() : entries
        for entry in entries where world.bug == .announcedBeforeApplied { announce(entry) }
        let time = world.chance(0.1) ? world.milliseconds(2...60) : world.milliseconds(0.1...1)
        world.after(
            time,
            alive { [unowned self] in
                for entry in entries {
                    install(entry)
                    if world.bug != .announcedBeforeApplied { announce(entry) }
                }
                perform(follower.applied())
                moved()
            })
    }

    /// Durable, then visible.
    private func install(_ entry: LogEntry) {
        replica.append(entry)
        visible[entry.change.scope] = entry
        if let epoch { world.history.shown(entry, epoch) }
    }

    private func announce(_ entry: LogEntry) {
        guard let epoch else { return }
        for reader in world.readers where reader.node === self { reader.heard(entry, epoch) }
    }

    private func moved() {
        guard let epoch else { return }
        for publish in publishes.keys.sorted(by: { $0.description < $1.description }) {
            drive(publish) { $0.applied(head.sequence, of: epoch, now: world.now) }
        }
    }

    private func alive(_ work: @escaping () -> Void) -> () -> Void {
        let incarnation = incarnation
        return { [unowned self] in if isAlive, incarnation == self.incarnation { work() } }
    }

    // MARK: Publishing

    func publish(_ scope: Scope, ifMatch: VersionNumber?, mustSucceed: Bool = false) {
        guard isAlive else { return }
        let publish = PublishID.random(using: &world.random)
        let proposer = Proposer(publish, now: world.now, limits: World.limits)
        world.history.began(publish, scope, ifMatch, world, mustSucceed: mustSucceed)
        publishes[publish] = Run(proposer: proposer, scope: scope, ifMatch: ifMatch)
        world.after(
            proposer.deadline - world.now,
            alive { [unowned self] in
                drive(publish) { $0.deadlinePassed(now: world.now) }
            })
        drive(publish) { $0.begin() }
    }

    private func drive(_ publish: PublishID, _ fact: (inout Proposer) -> Proposer.Action?) {
        guard var proposer = publishes[publish]?.proposer else { return }
        let next = fact(&proposer)
        publishes[publish]?.proposer = proposer
        guard let action = next else { return }
        switch action {
        case .prepare: drive(publish) { $0.prepared(prepare(publish), now: world.now) }
        case .catchUp: catchUp(publish)
        case .append(let draft): append(draft)
        case .pause(let time):
            world.after(time, alive { [unowned self] in drive(publish) { $0.pauseEnded(now: world.now) } })
        case .offer(let entry):
            perform(follower.offered(entry, in: offerSession[publish] ?? 0))
            moved()
        case .answer(let answer):
            world.history.answered(publish, answer, at: world.now)
            if answer != .unknown { publishes[publish] = nil }
        case .resolve(let isCommitted):
            world.history.resolved(publish, isCommitted)
            publishes[publish] = nil
        }
    }

    /// Session of the follower in which a publish was last proposed.
    private var offerSession: [PublishID: Int] = [:]

    private func prepare(_ publish: PublishID) -> Proposer.Preparation {
        guard let run = publishes[publish], follower.isReady, let logMetadata = follower.logMetadata else {
            return .unready
        }
        let current = visible[run.scope]?.change.version ?? 0
        if let ifMatch = run.ifMatch, ifMatch != current { return .refused }
        let metadata = VersionMetadata(number: current + 1, updateTime: Timestamp(microseconds: 0))
        let change = TemplateChange(
            scope: run.scope, sequence: head.sequence + 1, metadata: metadata, etag: "", changedKeys: nil)
        let entry = LogEntry(change: change, publish: publish, after: head, node: name, content: .inline([]))
        return .draft(Proposer.Draft(entry: entry, logMetadata: logMetadata))
    }

    private func catchUp(_ publish: PublishID) {
        if world.bug == .staleRefusal, follower.isReady {
            return drive(publish) { $0.caughtUp(true, now: world.now) }
        }
        ask { [unowned self] isDone in drive(publish) { $0.caughtUp(isDone, now: world.now) } }
    }

    private func append(_ draft: Proposer.Draft) {
        var compared = MemoryLog.Comparisons()
        compared.logMetadata = world.bug != .logMetadataNotCompared
        compared.head = world.bug != .headNotCompared
        let publish = draft.entry.publish
        offerSession[publish] = follower.session
        world.request(
            of: self,
            { [world, compared] in
                $0.append(draft.entry, under: draft.logMetadata, at: world.now, compared)
            }
        ) { [unowned self] result in
            var result = result
            if world.bug == .unknownTakenAsFailed, case .failure = result {
                result = .success(.superseded(draft.logMetadata))
            }
            drive(publish) { $0.appended(result, now: world.now, chance: &world.random) }
        }
    }

    // MARK: Reading

    /// Calls back when the replica has everything that is in the log now.
    func ask(_ done: @escaping (Bool) -> Void) {
        lastTicket += 1
        tickets[lastTicket] = done
        perform(follower.asked(lastTicket))
    }

    /// Calls back when the log has said that the replica is at its end.
    func verified(_ done: @escaping (Bool) -> Void) {
        if world.bug == .checkBeganBeforeRequest, stowaways != nil { return stowaways!.append(done) }
        lastTicket += 1
        tickets[lastTicket] = done
        perform(checks.asked(lastTicket, now: world.now).map { [$0] } ?? [])
    }

    private func perform(_ actions: [HeadChecks.Action]) {
        for action in actions {
            switch action {
            case .wake(let time):
                world.after(
                    time,
                    alive { [unowned self] in
                        perform(checks.due(now: world.now).map { [$0] } ?? [])
                    })
            case .release(let tickets, let isVerified):
                for ticket in tickets { self.tickets.removeValue(forKey: ticket)?(isVerified) }
            case .catchUp(let tickets): for ticket in tickets { perform(follower.asked(ticket)) }
            case .check: check()
            }
        }
    }

    private func check() {
        let (head, logMetadata, ready) = (head, follower.logMetadata, follower.isReady)
        stowaways = []
        world.request(of: self, { log in logMetadata.map { log.isCurrent(head, under: $0) } ?? false }) {
            [unowned self] in
            let joined = stowaways ?? []
            stowaways = nil
            let answer: HeadChecks.Answer =
                switch $0 {
                case .success(let isCurrent): isCurrent && ready ? .current : .behind
                case .failure: .unanswered
                }
            for done in joined { done(answer == .current) }
            perform(checks.answered(answer, now: world.now))
        }
    }
}

extension LogPage {
    /// Page that a node would read which compares nothing with its own entries.
    fileprivate func pretending(toFollow own: LogEntry) -> LogPage {
        let head = LogHead(of: own)
        guard self.head.sequence > head.sequence else {
            return LogPage(logMetadata: logMetadata, head: head, entries: [])
        }
        var entries = entries.filter { $0.sequence > own.sequence }
        if let first = entries.first, first.sequence == own.sequence + 1 {
            entries[0] = LogEntry(
                change: first.change, publish: first.publish, after: head, node: first.node, content: first.content)
        }
        return LogPage(logMetadata: logMetadata, head: self.head, entries: entries)
    }
}
