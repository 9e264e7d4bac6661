import StalecastDaemon
import StalecastEdge
import StalecastHub
import StalecastStore
import StalecastTemplate
import StalecastTestSupport
import StalecastWire
import Synchronization

/// A daemon's releases without sockets and disk: the record of a release, hub, fetches, and clients that hold what they
/// were told. It plays random histories and says what it finds wrong in them.
final class ReleaseWorld {
    /// A mistake that a history plays on purpose.
    enum Fault: CaseIterable {
        case tellsBeforeItServes, servesNothing, tellsOneStageMore, rollbackTellsAll, rollbackTellsNobody
        case forgetsTheSplitAtStart, goesFurtherAtStart, ignoresIDs, supersedeTellsTheToldOnly
    }

    static let scope = Scope(project: try! ProjectID("demo"), namespace: .firebase)
    static let epoch = Epoch("abcdefghijklmnopqrstuvwxyz")!

    /// Holds a stream, or is away with the cursor of its last one.
    struct Client {
        let id: String?
        let address: UInt64
        var seat: Topic.Index?
        var cursor: CommitSequence = 0
        /// Version that it was told of, or that it fetched before its first stream.
        var known: VersionNumber = 0
        var fetched: VersionNumber = 0

        var key: ClientKey { id.map(ClientKey.init(id:)) ?? ClientKey(address: address) }
    }

    private final class Inbox: Sendable {
        let events = Mutex<[Hub.Event]>([])
    }

    private(set) var random: SeededRandom
    let fault: Fault?
    private(set) var problems: [String] = []
    private(set) var clients: [Client]
    private(set) var hub: Hub
    private let served: ServedTemplates
    private var conductor: ReleaseConductor
    private var board: TopicBoard
    private let inbox = Inbox()
    private var sequence: CommitSequence = 0
    /// Every step has a sequence of its own, also one that no client is told of.
    private let isOfCluster: Bool
    private(set) var stored: [StoredVersion] = []
    private var contents: [VersionNumber: Int] = [:]
    private(set) var release: Release? {
        didSet { if let release { releases[release.version] = release } }
    }
    private var releases: [VersionNumber: Release] = [:]
    private var now = Timestamp(microseconds: 1_795_000_000_000_000)

    /// - Parameter served: may be that of another world, whose versions the first publish replaces. Making one is slow.
    init(seed: UInt64, _ fault: Fault? = nil, on served: ServedTemplates) {
        self.served = served
        random = SeededRandom(seed: seed)
        isOfCluster = seed % 2 == 0
        self.fault = fault
        clients = (0..<8).map { Client(id: $0 < 7 ? "app-\(seed)-\($0)" : nil, address: UInt64($0)) }
        let board = Self.board(head: 0, [])
        hub = Hub(board: board)
        conductor = ReleaseConductor(hub, served)
        self.board = board
        listen()
        commit { _ in nil }
    }

    private static func board(head: CommitSequence, _ changes: [TemplateChange]) -> TopicBoard {
        TopicBoard(
            epoch: epoch, head: head, bindings: [TopicBinding(name: .pushRC, scopes: [scope])], changes: changes)
    }

    static func nothingServed() -> ServedTemplates {
        ServedTemplates([ServedTemplates.Project(id: scope.project, number: 1, namespaces: [.firebase])])
    }

    /// Fetches that no client asks for.
    private static let elsewhere = nothingServed()

    private func listen() {
        board = hub.attach { [inbox] event in inbox.events.withLock { $0.append(event) } }
    }

    // MARK: What is right

    private var current: StoredVersion { stored[stored.count - 1] }

    /// Whether the open release covers a client; with none open no client is covered.
    private func isCovered(_ client: Client) -> Bool {
        guard let release, release.isOpen, release.version == current.version else { return false }
        return isTold(client, release)
    }

    /// Whether a release had reached a client, by its buckets rather than by its stages.
    private func isTold(_ client: Client, _ release: Release) -> Bool {
        if client.id == nil { return release.told == 10_000 }
        if client.id.map(release.policy.first.contains) == true { return release.told > 0 }
        return release.cut.bucket(of: client.key) < release.told
    }

    /// Version that a client is to have.
    private func due(_ client: Client) -> VersionNumber {
        guard let release, release.isOpen, release.version == current.version, !isCovered(client) else {
            return current.version
        }
        return release.base
    }

    private func problem(_ text: String) {
        problems.append("\(text); \(release.map { "\($0.state) \($0.told) of \($0.version)" } ?? "no release")")
    }

    // MARK: Clients

    func fetch(_ place: Int, after told: VersionNumber? = nil) {
        let client = clients[place]
        let body = """
            {"appId":"1:1:web:a","appInstanceId":"\(client.id ?? "no id")","appInstanceIdToken":"t"}
            """
        guard let scope = try? served.scope("demo", "firebase"),
            let answer = try? scope.answer(
                Array(body.utf8), ifNoneMatch: nil, maxBodyBytes: 1 << 16,
                address: fault == .ignoresIDs ? nil : client.address)
        else { return problem("a fetch fails") }
        if let told, answer.version < told { problem("told of \(told), fetched \(answer.version)") }
        if answer.version < client.fetched { problem("went back from \(client.fetched) to \(answer.version)") }
        clients[place].fetched = answer.version
        // Between the two a release makes a version fetchable and announces it.
        if told == nil, contents[answer.version] != contents[due(client)] {
            problem("fetched \(answer.version) instead of \(due(client))")
        }
    }

    func subscribe(_ place: Int) {
        let client = clients[place]
        guard client.seat == nil else { return clients[place].seat = nil }
        let seats = board.seats(of: board.topics(.pushRC, in: Self.scope.project), for: client.key)
        var point = ResumePoint(have: client.known)
        if client.cursor > 0 {
            point = ResumePoint(cursor: Cursor(epoch: Self.epoch, sequence: client.cursor).description)
        }
        for debt in board.opening(for: seats, from: point).messages {
            if let version = board[debt.topic].latest?.version {
                tell(place, version, since: debt.since, isResumed: true)
            }
        }
        clients[place].seat = seats[0]
        clients[place].cursor = board.headSequence
        settle(place)
    }

    private func tell(_ place: Int, _ version: VersionNumber, since: VersionNumber?, isResumed: Bool = false) {
        let client = clients[place]
        let held = max(client.known, client.fetched)
        // Changed keys are those since then: the content of an older version may be the same.
        if let since, since > held, contents[since] != contents[held] {
            problem("told of what changed since \(since), holds \(held)")
        }
        if isResumed ? version < client.known : version <= client.known {
            problem("told of \(version) after \(client.known)")
        }
        if version > due(client) { problem("told of \(version) instead of \(due(client))") }
        clients[place].known = version
        fetch(place, after: version)
    }

    /// A client with a stream holds the content that it would fetch.
    private func settle(_ place: Int) {
        let client = clients[place]
        if client.seat != nil, contents[client.known] != contents[due(client)] {
            problem("holds \(client.known) instead of \(due(client))")
        }
    }

    /// Takes what the hub said, as a shard does.
    private func takeEvents(expecting told: (Client) -> Bool) {
        var heard: Set<Int> = []
        for event in inbox.events.withLock({ events in
            defer { events = [] }
            return events
        }) {
            switch event {
            case .announcement(let announcement):
                board.apply(announcement)
                for place in clients.indices {
                    let owed = announcement.encodedMessages.first { $0.topic == clients[place].seat }
                    guard let owed else { continue }
                    heard.insert(place)
                    let message = owed.encodedMessage.message
                    tell(place, message.change.version, since: message.since)
                    clients[place].cursor = announcement.change.sequence
                }
            case .split(_, let new):
                board.takeTopics(of: new)
                for place in clients.indices {
                    clients[place].seat = clients[place].seat.map { board.seat(of: $0, for: clients[place].key) }
                }
            case .rebound(let new): board.takeTopics(of: new)
            case .data: break
            }
        }
        let right = Set(clients.indices.filter { clients[$0].seat != nil && told(clients[$0]) })
        if heard != right { problem("told \(heard.sorted()) instead of \(right.sorted())") }
        for place in clients.indices { settle(place) }
    }

    // MARK: Commits

    /// Commits a version, as the store does.
    ///
    /// - Parameter effect: what it does to the release.
    func commit(content: Int? = nil, rollbackSource: VersionNumber? = nil, _ effect: (StoredVersion) -> ReleaseStep?) {
        sequence += 1
        let number = (stored.last?.version ?? 0) + 1
        let content = content ?? Int(number.rawValue)
        contents[number] = content
        let metadata = VersionMetadata(number: number, updateTime: now, rollbackSource: rollbackSource)
        let change = TemplateChange(
            scope: Self.scope, sequence: sequence, metadata: metadata, etag: "etag-1-\(number)", changedKeys: ["v"])
        let template = Template(parameters: ["v": TemplateParameter(defaultValue: .value("\(content)"))])
        let version = StoredVersion(change: change, template: template, content: [])
        let step = effect(version)
        stored.append(version)
        guard let step else {
            served.install(template, change)
            hub.announce(change, at: 0)
            return takeEvents { _ in true }
        }
        perform(step, version)
    }

    private func perform(_ step: ReleaseStep, _ version: StoredVersion) {
        var step = step
        func with(_ stages: Range<Int>, _ kind: ReleaseStep.Kind? = nil) -> ReleaseStep {
            ReleaseStep(kind: kind ?? step.kind, release: step.release, stages: stages, sequence: step.sequence)
        }
        let all = 0..<step.release.policy.stages.count
        switch (fault, step.kind) {
        case (.tellsOneStageMore, .began), (.tellsOneStageMore, .reached):
            step = with(step.stages.lowerBound..<min(all.upperBound, step.stages.upperBound + 1))
        case (.rollbackTellsAll, .rolledBack): step = with(all)
        case (.rollbackTellsNobody, .rolledBack): step = with(0..<0)
        case (.supersedeTellsTheToldOnly, .superseded): step = with(step.stages, .rolledBack)
        default: break
        }
        let isLate = fault == .tellsBeforeItServes
        if isLate || fault == .servesNothing && step.kind == .reached {
            _ = ReleaseConductor(hub, Self.elsewhere).announce(step, of: version, at: 0)
        } else {
            _ = conductor.announce(step, of: version, at: 0)
        }
        let release = step.release
        let before = release.reached.dropLast().last?.stage ?? 0
        takeEvents { [self] client in
            switch step.kind {
            case .superseded: true
            case .rolledBack: isTold(client, release)
            case .began, .reached:
                isTold(client, release) && !(before > 0 && wasTold(client, release, before))
            case .noted: false
            }
        }
        if isLate { conductor.restore(release, current, stored.first { $0.version == release.base }) }
    }

    private func wasTold(_ client: Client, _ release: Release, _ told: Int) -> Bool {
        if client.id == nil { return told == 10_000 }
        return client.id.map(release.policy.first.contains) == true || release.cut.bucket(of: client.key) < told
    }

    func publish() {
        if var open = release, open.isOpen {
            commit { version in
                try? open.supersede(by: version.version, at: self.now, by: "test")
                self.release = open
                return ReleaseStep(
                    kind: .superseded, release: open, stages: 0..<open.stagesTold, sequence: version.change.sequence)
            }
        } else {
            commit { _ in nil }
        }
    }

    func begin() {
        if let release, release.isOpen, !release.isWhole { return }
        let stages =
            [[100, 1000, 5000], [2500, 5000], [3000], [1, 9999], []].randomElement(using: &random)! + [10_000]
        let first = clients.filter { _ in random.next() % 8 == 0 }.compactMap(\.id)
        let bake = random.next() % 2 == 0 ? "5m" : "0s"
        let policy = try! ReleasePolicy(json: [
            "stages": .array(stages.map { .double(Double($0) / 100) }), "bake": .string(bake),
            "first": .array(first.map(JSONValue.string)),
        ])
        let base = current.version
        commit { version in
            var release = Release(scope: Self.scope, version: version.version, base: base, policy: policy)
            try! release.begin(sequence: version.change.sequence, at: now)
            self.release = release
            return ReleaseStep(
                kind: .began, release: release, stages: 0..<release.stagesTold, sequence: version.change.sequence)
        }
    }

    func change(_ change: (inout Release, CommitSequence) throws -> Void) {
        guard var open = release, open.isOpen else { return }
        let told = open.stagesTold
        guard (try? change(&open, sequence + 1)) != nil else { return }
        release = open
        let reaches = open.stagesTold > told
        guard reaches || isOfCluster else { return }
        sequence += 1
        perform(
            ReleaseStep(
                kind: reaches ? .reached : .noted, release: open, stages: told..<open.stagesTold, sequence: sequence),
            current)
    }

    func rollBack() {
        guard var open = release, open.isOpen else { return }
        commit(content: contents[open.base], rollbackSource: open.base) { version in
            try! open.rollBack(to: version.version, at: self.now, by: "test")
            self.release = open
            return ReleaseStep(
                kind: .rolledBack, release: open, stages: 0..<open.stagesTold, sequence: version.change.sequence)
        }
    }

    func restart() {
        let before = release
        release = before.flatMap { Release(record: $0.record) }
        if release != before { problem("the record is not the release") }
        var shown = release
        if fault == .goesFurtherAtStart { try? shown?.advance(sequence: sequence + 1, at: now, by: "test") }
        var board = Self.board(
            head: sequence, ReleaseConductor.lastTold(stored.map(\.change), Array(releases.values)))
        if fault != .forgetsTheSplitAtStart { ReleaseConductor.restore(&board, shown, current.change) }
        hub = Hub(board: board)
        conductor = ReleaseConductor(hub, served)
        let base = release.flatMap { release in stored.first { $0.version == release.base } }
        conductor.restore(shown, current, base)
        listen()
        for place in clients.indices { clients[place].seat = nil }
    }

    // MARK: Histories

    /// Plays one random step.
    func step() {
        let place = Int(random.next() % UInt64(clients.count))
        now = Timestamp(microseconds: now.microseconds + 1_000_000)
        let (now, by) = (now, "test")
        switch random.next() % 32 {
        case 0: publish()
        case 1, 2, 3: begin()
        case 4, 5, 6, 7: change { release, sequence in try release.advance(sequence: sequence, at: now, by: by) }
        case 8: change { release, sequence in try release.promote(sequence: sequence, at: now, by: by) }
        case 9: change { release, _ in try release.pause(at: now, by: by) }
        case 10, 11: change { release, _ in try release.resume(at: now, by: by) }
        case 12: change { release, _ in try release.finish(at: now) }
        case 13, 14: rollBack()
        case 15: restart()
        case 16...25: subscribe(place)
        default: fetch(place)
        }
    }
}
