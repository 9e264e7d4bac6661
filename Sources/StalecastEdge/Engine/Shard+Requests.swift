import CLinux
import Glibc
import NIOCore
import StalecastAccess
import StalecastHTTP
import StalecastHub
import StalecastWire

extension Shard {
    /// A descriptor became readable, writable, or lost its peer.
    func ready(_ index: Int32, _ events: UInt32) {
        assertOnLoop()
        let slot = slots[index]
        let isGone = events & (EPOLLHUP.rawValue | EPOLLERR.rawValue) != 0
        switch slot.pointee.phase {
        case .free, .doomed: return
        case .head:
            // A client may end with its request: epoll reports that only once, so it is handled after the answer. So is
            // what came behind records that were read before.
            if events & EPOLLRDHUP.rawValue != 0 || slot.pointee.isAhead { slot.pointee.input.hasMore = true }
            if events & (EPOLLIN.rawValue | EPOLLRDHUP.rawValue) != 0 || isGone { readHead(index) }
        case .verifying:
            if isGone { return release(index, .peerClosed) }
            if events & (EPOLLIN.rawValue | EPOLLRDHUP.rawValue) != 0 { slot.pointee.input.hasMore = true }
        case .direct, .stream:
            if isGone || events & EPOLLRDHUP.rawValue != 0 { return release(index, .peerClosed) }
            if events & EPOLLIN.rawValue != 0, !discardInput(slot) { return release(index, .peerClosed) }
            if events & EPOLLOUT.rawValue != 0, slot.pointee.hasBacklog { drainBacklog(index) }
        case .answering:
            if isGone { return release(index, .peerClosed) }
            if events & EPOLLIN.rawValue != 0 { slot.pointee.input.hasMore = true }
            if events & EPOLLOUT.rawValue != 0 { continueAnswer(index) }
        case .poll:
            if isGone || events & EPOLLRDHUP.rawValue != 0 { return release(index, .peerClosed) }
            if events & EPOLLIN.rawValue != 0 { slot.pointee.input.hasMore = true }
        }
    }

    /// Looks at the request: an ordinary one is taken and served here, anything else goes to the Front.
    ///
    /// - Parameters:
    ///   - isCurrent: the board shows what was announced when the request came.
    ///   - isVerified: its token was verified already.
    func readHead(_ index: Int32, isCurrent: Bool = false, isVerified: Bool = false) {
        let slot = slots[index]
        if slot.pointee.input.awaitsProxyHeader, !takeProxyHeader(index) { return }
        let count = peek(at: index)
        if count == 0 { return }
        defer { input.keep() }
        // A client that closes its connection between two requests has lost nothing.
        if count < 0 { return release(index, slot.pointee.input.waits == 0 ? nil : .peerClosed) }
        let bytes = UnsafeBufferPointer(rebasing: input.buffer[0..<count])
        guard isTLS == !slot.pointee.isPlain, count < input.buffer.count,
            let found = Recogniser.find(
                bytes, maxTopics: settings.maxTopicsPerStream, hosts: settings.connections.hosts,
                field: isProxied(index) ? settings.proxies.field : nil)
        else { return giveToFront(index) }
        switch found {
        case .stream(let request): serve(request, index, count, isCurrent: isCurrent, isVerified: isVerified)
        case .fetch(let head): serve(head, index, bytes, isVerified)
        case .beginningOfFetch: if !awaitBody(index) { giveToFront(index) }
        }
    }

    /// Serves a stream, a poll or the state, whose head has `count` bytes; see ``readHead(_:isCurrent:isVerified:)``.
    private func serve(_ request: StreamRequest, _ index: Int32, _ count: Int, isCurrent: Bool, isVerified: Bool) {
        let slot = slots[index]
        var request = request
        guard count <= settings.connections.maxHeadBytes else { return giveToFront(index) }
        believe(index, request.forwarded)
        // The hook is asked with header fields that the recogniser does not read.
        if settings.access.isForHook(request.credentials) { return giveToFront(index) }
        // See ``FrontRequest/credentials``.
        if settings.access.takesCertificates, request.origin == nil, case .session(let tls) = slot.pointee.cover {
            request.credentials.certificate = tls.clientCertificate
        }
        if !isCurrent, postpones(.head(index, generation: slot.pointee.generation)) { return }
        if awaitsCursors, board.ahead(request.resume.cursor) != nil { return giveToFront(index) }
        request.address = slot.pointee.client.address
        let topics: AdmittedTopics
        do throws(GoogleError) {
            let decided = try settings.decide(request, on: board, counts: settings.access.mode == .observe)
            guard let decided else {
                if isVerified || !verifyToken(index, request.credentials) { giveToFront(index) }
                return
            }
            topics = decided
        } catch {
            // The Front refuses, and counts it.
            return giveToFront(index)
        }
        let isState = request.kind == .state
        if isState, slot.pointee.input.isRefused { return giveToFront(index) }
        take(count, of: slot)
        if isState { answer(index, request, topics) } else { begin(index, request, topics) }
    }

    /// Has an unknown token verified. A plain request waits in ``input``; over TLS it stays in the session. After a restart
    /// thousands come so at once, and the way by the Front costs more than the signature.
    ///
    /// - Returns: false where the Front is to decide.
    func verifyToken(_ index: Int32, _ credentials: Credentials) -> Bool {
        let slot = slots[index]
        guard !slot.pointee.input.isRefused, !ledger.isGuessing(slot.pointee.client.address),
            let authorizer = settings.access.authorizer, let token = authorizer.unknownToken(in: credentials)
        else { return false }
        slot.pointee.phase = .verifying
        let (generation, address) = (slot.pointee.generation, slot.pointee.client.address)
        authorizer.tokens.verify(token) { [self] denial in
            post(.verified(index, generation: generation, denial, address))
        }
        return true
    }

    /// Handles the answer about a credential; the request has waited, see ``verifyToken(_:_:)``.
    func verified(_ index: Int32, _ generation: UInt32, _ denial: Denial?, _ address: UInt64) {
        let slot = slots[index]
        guard slot.pointee.generation == generation, slot.pointee.phase == .verifying else {
            return ledger.countUnanswered(denial, of: address)
        }
        slot.pointee.phase = .head
        readHead(index, isVerified: true)
    }

    func giveToFront(_ index: Int32) {
        let slot = slots[index]
        makeRoom(false, on: slot)
        let given = slot.pointee
        audience.tally.handedOver += 1
        // The Front may read from the descriptor at once, on its own thread.
        poller.unwatch(given.fd)
        audience.wheel.remove(index, in: slots)
        slots.release(index)
        let tls: TLSSession? = if case .session(let tls) = given.cover { tls } else { nil }
        let proxy = proxies.removeValue(forKey: index)
        handOver(
            Handover(
                fd: given.fd, input: input.remove(index), address: given.client.address,
                isRefused: given.input.isRefused, tls: tls, proxy: proxy))
    }

    func adopt(_ adoption: Shard.Adoption) {
        if !postpones(.adoption(adoption)) { serve(adoption) }
    }

    /// Serves a request from the Front. Topics or access may have changed since the Front's check; then it is refused
    /// with an answer.
    func serve(_ adoption: Shard.Adoption) {
        adoption.tls?.use(adoption.fd, readsAhead: true)
        guard let index = claim(adoption.fd, adoption.address, adoption.tls, proxy: adoption.proxy) else { return }
        guard var request = adoption.request else { return goOn(index) }
        request.address = adoption.address
        if isDraining { return refuse(index, request, .drain) }
        // Since the Front admitted it, its topics or its right to them are gone.
        guard let topics = try? settings.admit(request, on: board, counts: false) else {
            return refuse(index, request, .topicRetired)
        }
        begin(index, request, topics)
    }

    /// Waits for the next request of a connection that the Front has answered.
    private func goOn(_ index: Int32) {
        if isDraining { return release(index, .drain) }
        slots[index].pointee.request.isHTTP11 = true
        slots[index].pointee.times.deadline = max(1, audience.wheel.now)
        awaitNextRequest(index)
    }

    private func begin(_ index: Int32, _ request: StreamRequest, _ topics: AdmittedTopics) {
        let slot = slots[index]
        audience.wheel.remove(index, in: slots)
        makeRoom(false, on: slot)
        if slot.pointee.input.isRefused { return refuse(index, request, .capacity) }
        open(index, request, topics)
        if slot.pointee.phase == .poll { return releaseIfGone(index) }
        // epoll does not report again what came with the request in another TLS record, nor an end that came with it.
        let brought = slot.pointee.phase == .stream && !slot.pointee.isPlain || slot.pointee.input.hasMore
        if brought, slot.pointee.isStream, !discardInput(slot) { release(index, .peerClosed) }
    }

    /// The edge that brought a poll may have brought its client's end too, and comes only once; nothing is written to
    /// a held poll that would tell.
    private func releaseIfGone(_ index: Int32) {
        var byte: UInt8 = 0
        let seen = stalecast_peek(slots[index].pointee.fd, &byte, 1)
        if seen > 0 { slots[index].pointee.input.hasMore = true }
        if seen == 0 || (seen < 0 && errno != EAGAIN) { release(index, .peerClosed) }
    }

    /// Sends an answer whole, now or as the socket takes it; then the connection waits for its next request, or ends.
    func send(_ response: [UInt8], body: ByteBuffer = ByteBuffer(), to index: Int32) {
        let slot = slots[index]
        var backlog = Backlog(
            bytes: response, body: body, through: board.headSequence, progress: audience.wheel.now, acknowledged: 0)
        guard put(&backlog, on: slot) else { return release(index, .peerClosed) }
        sendLater(Array(backlog.rest), body: backlog.body, to: index)
    }

    /// Keeps the rest of an answer, and sends it as the socket takes it. Most answers have no rest: they are finished
    /// here.
    func sendLater(_ rest: [UInt8], body: ByteBuffer, to index: Int32) {
        if rest.isEmpty, body.readableBytes == 0 { return answered(index) }
        let slot = slots[index]
        audience.backlogs[index] = Backlog(
            bytes: rest, body: body, through: board.headSequence, progress: audience.wheel.now,
            acknowledged: stalecast_acknowledged(slot.pointee.fd))
        slot.pointee.phase = .answering
        awaitProgress(index)
    }

    func answered(_ index: Int32) {
        slots[index].pointee.request.keepAlive ? awaitNextRequest(index) : release(index, nil)
    }

    func awaitProgress(_ index: Int32) {
        audience.wheel.remove(index, in: slots)
        let limit = TimerWheel.ticks(settings.connections.writeStallLimit.milliseconds)
        audience.wheel.insert(index, due: audience.wheel.now + limit, in: slots)
    }

    /// The socket takes more of an answer that did not fit at once.
    private func continueAnswer(_ index: Int32) {
        guard var backlog = audience.backlogs[index] else { return }
        guard put(&backlog, on: slots[index]) else { return release(index, .peerClosed) }
        audience.backlogs[index] = backlog
        guard backlog.count == 0 else { return awaitProgress(index) }
        audience.backlogs[index] = nil
        audience.wheel.remove(index, in: slots)
        answered(index)
    }

    private func awaitNextRequest(_ index: Int32) {
        let slot = slots[index]
        slot.pointee.phase = .head
        slot.pointee.origin = 0
        audience.wheel.insert(
            index, due: audience.wheel.now + TimerWheel.ticks(settings.connections.idleTimeout.milliseconds), in: slots)
        // Records that were read before go first. They need no look at the socket, so `hasMore` stays for what is in it.
        if slot.pointee.isAhead { return readHeadLater(index) }
        guard slot.pointee.input.hasMore else {
            // The edge that brought a record came for those behind it too.
            if case .session(let tls) = slot.pointee.cover, tls.hasUnread { readHeadLater(index) }
            return
        }
        slot.pointee.input.hasMore = false
        readHead(index)
    }

    // MARK: Refusals

    /// Answers a request that cannot be served, and closes: over a cap, during a drain, or after its topic went.
    private func refuse(_ index: Int32, _ request: StreamRequest, _ reason: DropReason) {
        _ = put(refusal(of: request, reason)[...], on: slots[index])
        // A connection over the cap was counted when it came.
        release(index, reason == .capacity ? nil : reason)
    }

    private func refusal(of request: StreamRequest, _ reason: DropReason) -> [UInt8] {
        let cors = ResponseHead.corsFields(origin: request.origin, allowed: settings.allowedOrigins)
        let date = audience.bytes.date.string()
        if reason == .topicRetired { return Refusals.whole(.unknownTopic, cors: cors, date: date) }
        let topic = (try? settings.admit(request, on: board, counts: false))?.known.first  // refused: no topic to name
        return Refusals.forNow(
            StreamDialect(isHTTP11: request.isHTTP11, kind: request.kind),
            version: topic.flatMap { board[$0].latest?.version } ?? 0, cors: cors,
            retryMs: reason == .drain ? drainRetryMs() : audience.policy.refusalRetryMs(), date: date)
    }
}
