import NIOCore
import NIOHTTP1
import StalecastHTTP
import StalecastHub
import StalecastWire

/// What is behind one connection of the Front: answers requests, holds a stream or poll, or gives it to the engine.
///
/// `@unchecked Sendable`: confined to the channel's event loop; the drain's timer hops there with it.
final class FrontConnection: RequestHandler, @unchecked Sendable {
    private let shard: FrontShard
    private let peer: FrontPeer
    private unowned let connection: HTTPConnection
    /// Held until it ends or its client goes.
    private var subscriber: FrontSubscriber?
    private var hasRoomForFetches = false

    init(shard: FrontShard, peer: FrontPeer, connection: HTTPConnection) {
        self.shard = shard
        self.peer = peer
        self.connection = connection
        shard.connections[ObjectIdentifier(self)] = self
    }

    func closed() {
        subscriber?.leave(.peerClosed)
        subscriber = nil
        shard.connections[ObjectIdentifier(self)] = nil
        peer.release()
    }

    func faulted(_ fault: ConnectionFault) {
        let reason: DropReason =
            switch fault {
            case .headTimeout: .headerTimeout
            case .idle: .idle
            case .writeStall: .writeStall
            case .badRequest: .badRequest
            }
        shard.tally.drops[reason, default: 0] += 1
    }

    // MARK: Requests

    func admit(_ head: RequestHead) -> Int { shard.settings.maxBodyBytes }

    func serve(_ request: Request) {
        let request = FrontRequest(request)
        // Browsers ask before they are refused; what they cannot ask they never read the refusal of.
        if peer.isRefused, request.head.method != .OPTIONS { return refuseForCapacity(request) }
        guard shard.isBehind else { return route(request) }
        // Whoever was told of a version elsewhere is never shown an older one here.
        shard.loop.assumeIsolated().execute { [self] in
            if shard.connections[ObjectIdentifier(self)] != nil { route(request) }
        }
    }

    private func route(_ request: FrontRequest) {
        switch shard.router.route(request) {
        case .respond(let response):
            count(response, to: request)
            respond(response, to: request)
        case .fetched(let answer):
            shard.tally.fetches.count(answer)
            respond(answer.bytes, to: request)
        case .subscribe(let subscription):
            if request.head.method == .HEAD { return respondToHead(of: subscription, request) }
            subscribe(subscription, as: request)
        }
    }

    private func count(_ response: FrontResponse, to request: FrontRequest) {
        if let event = response.installation { shard.tally.fetches.count(event) }
        if response.status >= 400, !request.mayBeStream { shard.tally.fetches.countRefusal(status: response.status) }
    }

    private func subscribe(_ request: StreamRequest, as whole: FrontRequest) {
        makeRoomForFetches(false)
        if connection.isAlone, peer.promote(request) { return connection.abandon() }
        // The router found them a moment ago, on this loop.
        guard let (topics, unknown) = try? request.topics(on: shard.board) else {
            return respond(FrontResponse.refused(.unknownTopic), to: whole)
        }
        let subscriber = FrontSubscriber(
            request, topics: topics, unknown: unknown, shard: shard, connection: self)
        self.subscriber = subscriber
        connection.hold()
        subscriber.begin()
    }

    // MARK: Answers

    private func cors(_ request: FrontRequest) -> String {
        ResponseHead.corsFields(origin: request.origin, allowed: shard.settings.allowedOrigins)
    }

    private func respond(_ response: FrontResponse, to request: FrontRequest) {
        var answer = Answer(status: response.status, contentType: response.type, body: response.body)
        answer.fields = response.fields
        answer.closesConnection = response.status >= 500 || shard.isDraining || peer.isRefused
        connection.answer(answer, cors: cors(request))
    }

    /// Writes a head of this request's own and a body that all share, in one system call.
    private func respond(_ bytes: FetchBytes, to request: FrontRequest) {
        let keepAlive = connection.keepsAlive && !shard.isDraining
        var fields = cors(request)
        if !keepAlive { fields += "Connection: close\r\n" }
        if bytes.body.readableBytes > StreamEngine.sendBuffer { makeRoomForFetches(true) }
        connection.writeFirst(bytes.head(date: shard.date.string(), fields: fields))
        connection.write(bytes.body)
        connection.ended(keepAlive: keepAlive)
    }

    /// Bytes the kernel may hold of a fetch's answer. The small buffer that streams have, so that a stalled one is
    /// seen soon, would cut an answer into many writes with a turn of the loop before each.
    private static let fetchSendBuffer = 212_992

    private func makeRoomForFetches(_ isWanted: Bool) {
        guard isWanted != hasRoomForFetches else { return }
        hasRoomForFetches = isWanted
        let size = isWanted ? Self.fetchSendBuffer : Int(StreamEngine.sendBuffer)
        // A channel that is being closed has no options any more; then nothing goes out either.
        try? connection.channel?.syncOptions?.setOption(.socketOption(.so_sndbuf), value: SocketOptionValue(size))
    }

    private func respondToHead(of subscription: StreamRequest, _ request: FrontRequest) {
        if subscription.kind == .events {
            let dialect = StreamDialect(isHTTP11: request.isHTTP11, isInvalidation: false)
            send(ResponseHead.stream(dialect, cors: cors(request), date: shard.date.string()))
            return finished(keepAlive: connection.keepsAlive)
        }
        respond(FrontResponse(fields: PollDialect.etagField(shard.board.head)), to: request)
    }

    private func refuseForCapacity(_ request: FrontRequest) {
        let cors = cors(request)
        let (date, retry) = (shard.date.string(), 5 * shard.retryMs())
        let operation = operation(request)
        if operation?.kind == .events, request.head.method == .GET {
            let dialect = StreamDialect(isHTTP11: request.isHTTP11, isInvalidation: false)
            send(Refusals.stream(dialect, cors: cors, retryMs: retry, date: date))
        } else if let operation, operation.kind == .invalidations, let version = newestVersion(operation.names) {
            let dialect = StreamDialect(isHTTP11: request.isHTTP11, isInvalidation: true)
            send(Refusals.stream(dialect, version: version, cors: cors, retryMs: retry, date: date))
        } else {
            send(Refusals.overloaded(cors: cors, retryMs: retry, date: date))
        }
        closeWhenWritten()
    }

    /// nil for what is no operation: it is refused as everything else.
    private func operation(_ request: FrontRequest) -> (kind: StreamRequest.Kind?, names: PathValues)? {
        let match = try? EdgeOperations.table.find(request.head.method.rawValue, request.path)
        guard case .operation(let operation, let names)? = match else { return nil }
        return (operation.handler.stream, names)
    }

    /// Of the scope in a path; nil for an unknown one.
    private func newestVersion(_ names: PathValues) -> VersionNumber? {
        guard let scope = try? shard.served.scope(names["project"], names["namespace"]).scope,
            let topic = shard.board.invalidations(of: scope)
        else { return nil }
        return shard.board[topic].latest?.version ?? 0
    }

    // MARK: What a subscriber needs

    var isHolding: Bool { connection.isHolding }
    var isWritable: Bool { connection.isWritable }

    func send(_ bytes: [UInt8]) { connection.write(bytes) }

    /// An answer was written: the connection waits for the next request, or ends.
    func finished(keepAlive: Bool) {
        subscriber = nil
        connection.ended(keepAlive: keepAlive)
    }

    /// Ends the connection when everything written so far has left.
    func closeWhenWritten() {
        subscriber = nil
        connection.finish()
    }

    func close() { connection.close() }

    func drain() { subscriber?.end(.drain) }

    func becameWritable() { subscriber?.becameWritable() }
}
