import CEpoll
import NIOCore
import NIOHTTP1
import StalecastHub
import StalecastWire

/// One connection of the Front: collects a request, answers it, holds its stream or poll, or gives it to the engine.
///
/// `@unchecked Sendable`: confined to the channel's event loop; the drain's timer hops there with it.
final class FrontConnection: ChannelInboundHandler, @unchecked Sendable {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = ByteBuffer

    private enum State {
        case waiting
        case receiving(HTTPRequestHead, body: [UInt8])
        case holding(FrontSubscriber)
        case closed
    }

    private let shard: FrontShard
    private let budget: HeadBudget
    private let peer: FrontPeer
    private var state = State.waiting
    private var context: ChannelHandlerContext?
    /// When the connection is closed, and why; looked at by the shard's sweep, since a timer per request costs more
    /// than a fetch.
    private var deadline: (at: UInt64, reason: DropReason)?
    private var hasRoomForFetches = false
    /// Parts of pipelined requests that came while a poll is held.
    private var queued: [HTTPServerRequestPart] = []
    private var isServing = false
    /// Nothing was received behind the request being served.
    private var isAlone = false
    /// The client does not read its answers: nothing more is read from it or served until it does.
    private var isBlocked = false
    /// Nothing follows what is being written.
    private var closesWhenWritten = false
    private var unwrittenBefore = 0
    /// One read of the socket may hold that many parts of small requests; more is no client's way to ask.
    private static let maxQueuedParts = 1024

    init(shard: FrontShard, budget: HeadBudget, peer: FrontPeer) {
        self.shard = shard
        self.budget = budget
        self.peer = peer
        budget.requestBegan = { [unowned self] in arm(shard.settings.headerTimeout, .headerTimeout) }
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        shard.connections[ObjectIdentifier(self)] = self
        arm(shard.settings.headerTimeout, .headerTimeout)
    }

    func channelInactive(context: ChannelHandlerContext) { wasClosed() }
    func handlerRemoved(context: ChannelHandlerContext) {
        wasClosed()
        self.context = nil
    }

    private func wasClosed() {
        if case .closed = state { return }
        if case .holding(let subscriber) = state { subscriber.leave(.peerClosed) }
        state = .closed
        deadline = nil
        shard.connections[ObjectIdentifier(self)] = nil
        peer.release()
    }

    // MARK: Requests

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let part = unwrapInboundIn(data)
        if closesWhenWritten { return }
        if isHolding || isServing || isBlocked || !queued.isEmpty {
            queued.append(part)
            if queued.count > Self.maxQueuedParts { close() }
        } else {
            take(part)
        }
    }

    private func take(_ part: HTTPServerRequestPart) {
        switch (part, state) {
        case (.head(let head), .waiting):
            budget.headEnded()
            state = .receiving(head, body: [])
            if head.version == .http1_1, head.headers.contains(name: "expect") { sendContinue() }
        case (.body(let bytes), .receiving(let head, var body)):
            body.append(contentsOf: bytes.readableBytesView)
            guard body.count <= shard.settings.maxBodyBytes else {
                return refuse(Refusal(status: 413, sentence: "the body is too large"))
            }
            state = .receiving(head, body: body)
        case (.end, .receiving(let head, let body)):
            let request = FrontRequest(head: head, body: body)
            isAlone = request.mayBeStream && budget.endsWithRequest(bodyBytes: body.count)
            budget.requestEnded()
            deadline = nil
            state = .waiting
            serve(request)
        default: return
        }
    }

    private func serve(_ request: FrontRequest) {
        if peer.isRefused { return refuseForCapacity(request) }
        route(request)
    }

    private func route(_ request: FrontRequest) {
        guard case .waiting = state else { return }
        switch shard.router.route(request) {
        case .respond(let response):
            count(response, to: request)
            respond(response, to: request)
        case .fetched(let answer):
            shard.tally.fetches.count(answer)
            respond(answer.bytes, to: request)
        case .subscribe(let subscription):
            if request.head.method == .HEAD { return respondToHead(of: subscription, request) }
            subscribe(subscription)
        }
    }

    private func count(_ response: FrontResponse, to request: FrontRequest) {
        if let event = response.installation { shard.tally.fetches.count(event) }
        if response.status >= 400, !request.mayBeStream { shard.tally.fetches.countRefusal(status: response.status) }
    }

    private func subscribe(_ request: StreamRequest) {
        makeRoomForFetches(false)
        if isAlone, peer.promote(request) { return promoted() }
        guard shard.isAhead(request.resume) else { return hold(request) }
        // The announcements this client has already seen are queued on this loop: take them first.
        isServing = true
        shard.loop.assumeIsolated().execute { [self] in
            isServing = false
            if case .waiting = state { hold(request) }
            resume()
        }
    }

    private func hold(_ request: StreamRequest) {
        let topics = request.topics.compactMap(shard.board.index(of:))
        let subscriber = FrontSubscriber(request, topics: topics, shard: shard, connection: self)
        state = .holding(subscriber)
        subscriber.begin()
    }

    /// The engine owns a duplicate of the descriptor now; this channel only lets go of its own.
    private func promoted() {
        state = .closed
        deadline = nil
        shard.connections[ObjectIdentifier(self)] = nil
        context?.close(promise: nil)
    }

    // MARK: Answers

    private func respond(_ response: FrontResponse, to request: FrontRequest) {
        let keepAlive = request.head.isKeepAlive && response.status < 500 && !shard.isDraining
        let cors = ResponseHead.corsFields(origin: request.origin, allowed: shard.settings.allowedOrigins)
        send(
            ResponseHead.response(
                status: response.status, type: response.type, fields: response.fields, cors: cors,
                date: shard.date.string(), keepAlive: keepAlive, isHTTP11: request.isHTTP11, body: response.body,
                bodyless: request.head.method == .HEAD))
        finished(keepAlive: keepAlive)
    }

    /// Writes a head of this request's own and a body that all share, in one system call.
    private func respond(_ bytes: FetchBytes, to request: FrontRequest) {
        guard let context else { return }
        let keepAlive = request.head.isKeepAlive && !shard.isDraining
        var fields = ResponseHead.corsFields(origin: request.origin, allowed: shard.settings.allowedOrigins)
        if !keepAlive { fields += "Connection: close\r\n" }
        if keepAlive, !request.isHTTP11 { fields += "Connection: keep-alive\r\n" }
        if bytes.body.readableBytes > StreamEngine.sendBuffer { makeRoomForFetches(true) }
        context.write(wrapOutboundOut(bytes.head(date: shard.date.string(), fields: fields)), promise: nil)
        context.writeAndFlush(wrapOutboundOut(bytes.body), promise: nil)
        finished(keepAlive: keepAlive)
    }

    /// Bytes the kernel may hold of a fetch's answer. The small buffer that streams have, so that a stalled one is
    /// seen soon, would cut an answer into many writes with a turn of the loop before each.
    private static let fetchSendBuffer = 212_992

    private func makeRoomForFetches(_ isWanted: Bool) {
        guard isWanted != hasRoomForFetches else { return }
        hasRoomForFetches = isWanted
        let size = isWanted ? Self.fetchSendBuffer : Int(StreamEngine.sendBuffer)
        // A channel that is being closed has no options any more; then nothing goes out either.
        try? context?.channel.syncOptions?.setOption(.socketOption(.so_sndbuf), value: SocketOptionValue(size))
    }

    /// Some clients wait for this before they send their body.
    private func sendContinue() { send(Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)) }

    private func respondToHead(of subscription: StreamRequest, _ request: FrontRequest) {
        let cors = ResponseHead.corsFields(origin: request.origin, allowed: shard.settings.allowedOrigins)
        if subscription.kind == .events {
            let dialect = StreamDialect(isHTTP11: request.isHTTP11, isInvalidation: false)
            send(ResponseHead.stream(dialect, cors: cors, date: shard.date.string()))
            return finished(keepAlive: request.head.isKeepAlive && request.isHTTP11)
        }
        respond(FrontResponse(fields: PollDialect.etagField(shard.board.head)), to: request)
    }

    private func refuseForCapacity(_ request: FrontRequest) {
        let cors = ResponseHead.corsFields(origin: request.origin, allowed: shard.settings.allowedOrigins)
        let (date, retry) = (shard.date.string(), 5 * shard.retryMs())
        if request.path == "/v1/events", request.head.method == .GET {
            let dialect = StreamDialect(isHTTP11: request.isHTTP11, isInvalidation: false)
            send(Refusals.stream(dialect, cors: cors, retryMs: retry, date: date))
        } else if let version = invalidatedVersion(request) {
            let dialect = StreamDialect(isHTTP11: request.isHTTP11, isInvalidation: true)
            send(Refusals.stream(dialect, version: version, cors: cors, retryMs: retry, date: date))
        } else {
            send(Refusals.overloaded(cors: cors, retrySeconds: retry / 1000, date: date))
        }
        closeWhenWritten()
    }

    /// The newest version of the scope whose invalidation stream is asked for; nil for any other request.
    private func invalidatedVersion(_ request: FrontRequest) -> VersionNumber? {
        guard request.head.method == .POST,
            case .streamInvalidations(let project, let namespace) = ProjectPath(request.path),
            // An unknown project or namespace is refused as everything else.
            let scope = try? shard.served.scope(project, namespace).scope,
            let topic = shard.board.index(of: .ofScope(scope))
        else { return nil }
        return shard.board[topic].lines[0].latest?.version ?? 0
    }

    /// Not HTTP, or not within the limits: an answer if none has begun, then the end of the connection.
    private func refuse(_ refusal: Refusal) {
        if closesWhenWritten { return }
        if !isHolding {
            send(
                ResponseHead.response(
                    status: refusal.status, date: shard.date.string(), keepAlive: false,
                    body: ResponseHead.error(refusal)))
        }
        shard.tally.drops[.badRequest, default: 0] += 1
        closeWhenWritten()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch error {
        case is HeadTooLarge: refuse(Refusal(status: 431, sentence: "the request head is too large"))
        case is HTTPParserError: refuse(.badRequest("this is not HTTP"))
        default: close()
        }
    }

    // MARK: What a subscriber needs

    var isHolding: Bool { if case .holding = state { true } else { false } }
    var isWritable: Bool { context?.channel.isWritable ?? false }

    func send(_ bytes: [UInt8]) {
        guard let context else { return }
        context.writeAndFlush(wrapOutboundOut(context.channel.allocator.buffer(bytes: bytes)), promise: nil)
    }

    /// An answer was written: the connection waits for the next request, or ends.
    func finished(keepAlive: Bool) {
        guard keepAlive else { return closeWhenWritten() }
        if case .closed = state { return }
        state = .waiting
        guard isWritable else { return block() }
        arm(shard.settings.idleTimeout, .idle)
        resume()
    }

    /// Answers wait in the channel: they must not pile up.
    private func block() {
        isBlocked = true
        awaitWriting()
        setReading(false)
    }

    private func setReading(_ on: Bool) {
        // A channel that is being closed has no options any more; then nothing is read either.
        try? context?.channel.syncOptions?.setOption(.autoRead, value: on)
    }

    /// Ends the connection when everything written so far has left.
    func closeWhenWritten() {
        guard !isWritable else { return close() }
        if case .closed = state { return }
        if case .holding(let subscriber) = state { subscriber.leave(.badRequest) }
        state = .waiting
        closesWhenWritten = true
        queued = []
        awaitWriting()
    }

    /// What the channel holds for a client that reads slowly; less of it each time means that it reads.
    private var unwritten: Int { (try? context?.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0 }

    private func awaitWriting() {
        unwrittenBefore = unwritten
        arm(shard.settings.writeStallLimit, .writeStall)
    }

    private func resume() {
        while !queued.isEmpty, !isHolding, !isServing, !isBlocked, !closesWhenWritten {
            if case .closed = state { return }
            take(queued.removeFirst())
        }
    }

    func close() { context?.close(promise: nil) }

    func drain() { if case .holding(let subscriber) = state { subscriber.end(.drain) } }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        guard context.channel.isWritable else { return }
        if closesWhenWritten { return close() }
        if case .holding(let subscriber) = state { return subscriber.becameWritable() }
        guard isBlocked else { return }
        isBlocked = false
        setReading(true)
        arm(shard.settings.idleTimeout, .idle)
        resume()
    }

    private func arm(_ time: Duration, _ reason: DropReason) {
        deadline = (stalecast_monotonic_ns() &+ UInt64(time.milliseconds) * 1_000_000, reason)
    }

    /// Closes the connection when its deadline has passed.
    func sweep(now: UInt64) {
        guard let deadline, deadline.at <= now else { return }
        if deadline.reason == .writeStall, unwritten < unwrittenBefore { return awaitWriting() }
        self.deadline = nil
        shard.tally.drops[deadline.reason, default: 0] += 1
        close()
    }
}
