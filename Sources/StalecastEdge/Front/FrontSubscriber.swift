import CLinux
import NIOCore
import StalecastAccess
import StalecastHTTP
import StalecastHub
import StalecastWire

/// A stream or poll held through a NIO channel; confined to its event loop.
///
/// Newest wins: while the channel is not writable nothing is queued, and when it is again the board says what the
/// newest of each topic is.
final class FrontSubscriber {
    private(set) var topics: [Topic.Index]
    private let unknown: [TopicName]
    /// See ``AdmittedTopics``.
    let principal: Int32
    private let hold: PrincipalHold?
    private let apiKey: UInt32
    private let expiresInMs: Int?
    let isPoll: Bool
    private let request: StreamRequest
    private let shard: FrontShard
    private unowned let connection: FrontConnection
    private var through: CommitSequence = 0
    private var isBehind = false
    /// A message to a Firebase stream went out a moment ago; the next one waits.
    private var isHeldBack = false
    /// Its turn in a paced fan-out comes.
    private var isWaiting = false
    private var distance: Scheduled<Void>?
    private var echo = BurstEcho()
    private var echoTimer: Scheduled<Void>?
    private var deferred = 0
    private var data: DataMessage?
    /// End of a stream's life or of a poll's wait.
    private var deadline: Scheduled<Void>?
    private var heartbeat: Scheduled<Void>?
    /// Before the end of the credential.
    private var warning: Scheduled<Void>?
    /// Timer beside ``deadline``, where the credential got another end.
    private var expiry: Scheduled<Void>?
    private var stallTimer: Scheduled<Void>?
    private var isEnded = false
    /// The first version whose message it has not got whole; nil when it has got all that were announced.
    private(set) var unsentSince: CommitSequence? {
        didSet { shard.untold[ObjectIdentifier(self)] = unsentSince == nil ? nil : self }
    }
    /// Keys of its client in the hub's book.
    private var identity: [UInt64] = []

    init(
        _ request: StreamRequest, _ topics: AdmittedTopics, shard: FrontShard, connection: FrontConnection
    ) {
        self.request = request
        self.topics = topics.known
        unknown = topics.unknown
        principal = topics.principal
        hold = shard.settings.access.hold(principal)
        apiKey = topics.apiKey
        expiresInMs = topics.expiresInMs
        self.shard = shard
        self.connection = connection
        isPoll = request.kind == .poll
    }

    /// Whether a topic is the first of those with its name: the others are the same name in other namespaces.
    func isFirst(_ topic: Topic.Index, of board: TopicBoard) -> Bool {
        topics.first { board[$0].name == board[topic].name } == topic
    }

    /// Moves to the topics of its stage.
    ///
    /// - Returns: false where it is there.
    func move(to seats: [Topic.Index]) -> Bool {
        guard seats != topics else { return false }
        topics = seats
        if !identity.isEmpty { shard.hub.propagation.moved(identity, to: Set(seats)) }
        return true
    }

    var clientKey: ClientKey { request.clientKey }

    /// Key of the client's address in the ledger.
    var address: UInt64 { connection.address.key }

    func hears(_ topics: [Topic.Index]) -> Bool { self.topics.contains { topics.contains($0) } }

    private var dialect: StreamDialect {
        StreamDialect(isHTTP11: request.isHTTP11, isInvalidation: request.kind == .invalidations)
    }

    var transport: Transport { isPoll ? .poll : dialect.transport }

    private var cors: String {
        ResponseHead.corsFields(origin: request.origin, allowed: shard.settings.allowedOrigins)
    }

    /// Registers first, then reads the state and writes what is owed.
    func begin() {
        shard.join(self)
        if !isPoll { shard.rollouts.joined { hears($0) } }
        if let client = request.client {
            identity = shard.hub.propagation.join(
                client, of: topics, on: shard.board, from: request.resume, isPoll: isPoll,
                address: connection.address)
        }
        let opening = shard.board.opening(for: topics, from: request.resume)
        if isPoll { return beginPoll(opening) }
        var out = ResponseHead.stream(dialect, cors: cors, date: shard.date.string())
        dialect.appendBeginning(
            retryMs: shard.retryMs(), reset: opening.reset, unknown: unknown, epoch: shard.board.epoch, to: &out)
        let encodedMessages = opening.messages.map { shard.cache.encodedMessage(for: $0, on: shard.board) }
        dialect.append(encodedMessages, to: &out)
        if !dialect.isInvalidation { dialect.append(StreamDialect.synced(opening.head), to: &out) }
        shard.tally.deliveries[transport, default: 0] += encodedMessages.count
        scheduleStream()
        write(out, through: opening.head.sequence)
    }

    private func scheduleStream() {
        let life = shard.policy.lifetimeMs(isInvalidation: dialect.isInvalidation)
        deadline = schedule(min(life, Shard.life(expiresInMs))) { $0.end($0.endReason) }
        scheduleHeartbeat()
        scheduleWarning(until: expiresInMs)
    }

    private func scheduleWarning(until expiry: Int?) {
        warning?.cancel()
        guard let expiry, !dialect.isInvalidation else { return }
        warning = schedule(expiry - SubscriberPolicy.warningMs(before: expiry)) { subscriber in
            guard !subscriber.isBehind,
                let currentPrincipal = subscriber.shard.settings.access.currentPrincipal(of: subscriber.principal),
                let event = subscriber.dialect.expiring(currentPrincipal)
            else { return }
            subscriber.write(event, through: subscriber.through)
        }
    }

    private var endReason: DropReason {
        guard principal != 0, shard.settings.access.mode == .enforce else { return .lifetime }
        return shard.settings.access.currentPrincipal(of: principal) == nil ? .expired : .lifetime
    }

    /// Looks again whether it may hear its topics, and until when.
    func recheckAccess() {
        guard shard.settings.access.mode == .enforce else {
            if !shard.settings.keys.admit(apiKey) { end(.revoked) }
            return
        }
        let currentPrincipal = shard.settings.access.currentPrincipal(of: principal)
        guard let currentPrincipal, topics.allSatisfy({ currentPrincipal.may(.watch, topic: shard.board[$0]) }) else {
            return end(.revoked)
        }
        guard let left = currentPrincipal.expiresInMs else { return }
        if !isPoll { scheduleWarning(until: left) }
        // Beside the deadline it has: whichever comes first ends it.
        expiry?.cancel()
        expiry = schedule(Shard.life(left)) { $0.end($0.endReason) }
    }

    private func scheduleHeartbeat() {
        heartbeat = schedule(shard.policy.heartbeatMs()) { subscriber in
            if !subscriber.isBehind {
                subscriber.shard.tally.heartbeats += 1
                subscriber.write(subscriber.dialect.heartbeat, through: subscriber.through)
            }
            subscriber.scheduleHeartbeat()
        }
    }

    private func schedule(_ milliseconds: Int, _ action: @escaping (FrontSubscriber) -> Void) -> Scheduled<Void> {
        shard.loop.assumeIsolated().scheduleTask(in: .milliseconds(Int64(milliseconds))) { [weak self] in
            guard let self, !isEnded else { return }
            action(self)
        }
    }

    // MARK: Messages

    /// Waits for the stream's turn to write the newest message: see ``takeTurn()``.
    func awaitTurn(_ sequence: CommitSequence) {
        isWaiting = true
        if unsentSince == nil { unsentSince = sequence }
    }

    func takeTurn() {
        guard isWaiting, !isEnded else { return }
        isWaiting = false
        guard !isBehind, !isHeldBack else { return }
        catchUp()
        noteTold()
    }

    func offer(_ encodedMessages: [EncodedMessage], through sequence: CommitSequence) {
        isWaiting = false
        guard !isBehind, !isHeldBack else {
            deferred += 1
            if unsentSince == nil { unsentSince = sequence }
            return
        }
        var out: [UInt8] = []
        dialect.append(encodedMessages, to: &out)
        shard.tally.deliveries[transport, default: 0] += encodedMessages.count
        write(out, through: sequence)
        if isBehind { unsentSince = unsentSince ?? sequence }
        noteTold()
        if dialect.isInvalidation { keepDistance() }
    }

    private func keepDistance() {
        isHeldBack = true
        scheduleEcho()
        distance = schedule(SubscriberPolicy.distanceMs) { subscriber in
            subscriber.isHeldBack = false
            if !subscriber.isBehind, !subscriber.isWaiting { subscriber.catchUp() }
            subscriber.noteTold()
        }
    }

    private func noteTold() {
        guard !isBehind, !isWaiting, unsentSince != nil else { return }
        unsentSince = nil
        shard.rollouts.hasNews = true
    }

    private func scheduleEcho() {
        let delay = shard.settings.burstEcho.milliseconds
        let before = echo.due
        echo.said(at: Self.nowMs, delayMs: UInt64(delay))
        guard echo.due != before else { return }
        echoTimer?.cancel()
        echoTimer = schedule(delay) { $0.sayEcho() }
    }

    private static var nowMs: UInt64 { stalecast_monotonic_ns() / 1_000_000 }

    /// Says the newest of a burst once more; one that is behind reads too slowly to be helped.
    private func sayEcho() {
        guard echo.takeDue(at: .max), !isBehind else { return }
        var out: [UInt8] = []
        dialect.append(
            shard.board.newest(of: topics).map { shard.cache.encodedMessage(for: $0, on: shard.board) }, to: &out)
        shard.tally.echoes += 1
        write(out, through: shard.board.headSequence)
    }

    func offer(_ message: DataMessage) {
        if isPoll { return answer([message.json]) }
        guard !isBehind else {
            if data != nil { shard.tally.coalesced += 1 }
            data = message
            return
        }
        var out: [UInt8] = []
        dialect.append(chunk: message.chunk, to: &out)
        shard.tally.deliveries[transport, default: 0] += 1
        write(out, through: through)
    }

    private func write(_ bytes: [UInt8], through sequence: CommitSequence) {
        through = sequence
        connection.send(bytes)
        if !connection.isWritable { fellBehind() }
    }

    private func fellBehind() {
        guard !isBehind, !isEnded else { return }
        isBehind = true
        shard.tally.stalled += 1
        let limit = Int64(shard.settings.writeStallLimit.milliseconds)
        stallTimer = shard.loop.assumeIsolated().scheduleTask(in: .milliseconds(limit)) { [weak self] in
            guard let self, isBehind, !isEnded else { return }
            leave(.writeStall)
            connection.close()
        }
    }

    /// The channel takes bytes again.
    func becameWritable() {
        guard isBehind, !isEnded else { return }
        caughtUp()
        if !isHeldBack, !isWaiting {
            catchUp()
            noteTold()
        }
    }

    /// Writes what the board says is owed now.
    private func catchUp() {
        let debts = shard.board.owed(to: topics, after: through)
        shard.tally.coalesced += max(0, deferred - debts.count)
        deferred = 0
        guard !debts.isEmpty || data != nil else { return }
        var out: [UInt8] = []
        dialect.append(debts.map { shard.cache.encodedMessage(for: $0, on: shard.board) }, to: &out)
        if let data { dialect.append(chunk: data.chunk, to: &out) }
        shard.tally.deliveries[transport, default: 0] += debts.count + (data == nil ? 0 : 1)
        data = nil
        write(out, through: shard.board.headSequence)
        if dialect.isInvalidation { keepDistance() }
    }

    private func caughtUp() {
        isBehind = false
        shard.tally.stalled -= 1
        stallTimer?.cancel()
        stallTimer = nil
    }

    // MARK: Polls

    private func beginPoll(_ opening: Opening) {
        if opening.reset != nil || !opening.messages.isEmpty {
            let messages = opening.messages.map { shard.cache.encodedMessage(for: $0, on: shard.board).json }
            return answer(messages, reset: opening.reset)
        }
        let hold = min(shard.policy.holdMs(wanted: request.waitMs), Shard.life(expiresInMs))
        if hold == 0 { return answer([]) }
        deadline = schedule(hold) { $0.answer([]) }
    }

    /// Answers a held poll with everything announced after `before`: its cursor will be the head.
    func answer(after before: CommitSequence) {
        guard !isEnded else { return }
        answer(
            shard.board.owed(to: topics, after: before).map {
                shard.cache.encodedMessage(for: $0, on: shard.board).json
            })
    }

    private func answer(_ messages: [[UInt8]], reset: Opening.ResetReason? = nil) {
        let isEmpty = messages.isEmpty && reset == nil
        let head = shard.board.head
        shard.tally.deliveries[.poll, default: 0] += messages.count
        leave(nil)
        let keepAlive = request.keepAlive && !shard.isDraining
        var fields = PollDialect.etagField(head)
        if shard.isDraining { fields += Refusals.retryAfter(milliseconds: shard.drainRetryMs()) }
        connection.send(
            ResponseHead.response(
                status: isEmpty && request.wantsNotModified ? 304 : 200, fields: fields,
                cors: cors, date: shard.date.string(), keepAlive: keepAlive,
                body: PollDialect.body(cursor: head, messages: messages, reset: reset, unknown: unknown)))
        connection.finished(keepAlive: keepAlive)
    }

    // MARK: Ends

    /// Ends a stream cleanly with a delay to come back after; answers a poll.
    func end(_ reason: DropReason) {
        guard !isEnded else { return }
        if isPoll { return answer([]) }
        if !isBehind {
            var out: [UInt8] = []
            let retry = shard.isDraining ? shard.drainRetryMs() : shard.retryMs()
            let newest = shard.isDraining ? shard.board[topics[0]].latest?.version ?? 0 : nil
            dialect.appendAuth(reason, to: &out)
            dialect.appendEnd(retryMs: retry, newest: newest, to: &out)
            connection.send(out)
        }
        leave(reason)
        connection.closeWhenWritten()
    }

    /// Takes the subscriber out of the shard; nothing is written any more.
    func leave(_ reason: DropReason?) {
        guard !isEnded else { return }
        isEnded = true
        if let unsentSince {
            shard.rollouts.left(unsentSince...(.max)) { hears($0) }
            self.unsentSince = nil
        }
        if !identity.isEmpty { shard.hub.propagation.left(identity, isPoll: isPoll) }
        deadline?.cancel()
        heartbeat?.cancel()
        warning?.cancel()
        expiry?.cancel()
        distance?.cancel()
        echoTimer?.cancel()
        if isBehind { caughtUp() }
        shard.leave(self, reason)
    }
}
