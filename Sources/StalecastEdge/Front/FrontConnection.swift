import CLinux
import NIOCore
import NIOHTTP1
import StalecastAccess
import StalecastHTTP
import StalecastHub
import StalecastWire

/// Listener's part of one connection of the Front: answers requests, holds a stream or poll, or gives it to the engine.
///
/// `@unchecked Sendable`: confined to the channel's event loop; the drain's timer hops there with it.
final class FrontConnection: RequestHandler, @unchecked Sendable {
    let shard: FrontShard
    private let peer: FrontPeer
    private unowned let connection: HTTPConnection
    /// Slot of the stream or poll that it is held for; nil for none.
    var seat: Int32?
    private var hasRoomForFetches = false

    init(shard: FrontShard, peer: FrontPeer, connection: HTTPConnection) {
        (self.shard, self.peer, self.connection) = (shard, peer, connection)
        shard.connections[ObjectIdentifier(self)] = self
    }

    func closed() {
        shard.loop.assertInEventLoop()
        if let seat { shard.release(seat, .peerClosed) }
        shard.connections[ObjectIdentifier(self)] = nil
        peer.release()
    }

    func faulted(_ fault: ConnectionFault) { shard.count(fault) }

    // MARK: Requests

    func admit(_ head: RequestHead) -> Int { shard.settings.maxBodyBytes }

    func serve(_ request: Request) {
        shard.loop.assertInEventLoop()
        if !peer.believe(request.head, shard.settings) {
            shard.audience.tally.refused[.addressCapacity, default: 0] += 1
        }
        var request = FrontRequest(request)
        request.address = peer.address
        request.isCanary = peer.isCanary
        if !request.mayBeStream { request.beganAt = stalecast_monotonic_ns() }
        if shard.settings.access.takesCertificates { request.certificate = connection.clientCertificate }
        if shard.settings.access.mode != .off {
            request.cookie = SessionCookie.value(in: request, allowedOrigins: shard.settings.allowedOrigins)
        }
        // Browsers send OPTIONS first. If that is refused, a page never sees the refusal of its request.
        if peer.isRefused, request.head.method != .OPTIONS { return refuseForNow(request) }
        verifyToken(of: request) { connection, request in connection.proceed(request) }
    }

    /// Has an unknown token verified, or the user's backend asked, off this loop; redeems a ticket.
    private func verifyToken(
        of request: FrontRequest, _ proceed: @escaping @Sendable (FrontConnection, FrontRequest) -> Void
    ) {
        let access = shard.settings.access
        guard access.mode != .off, let authorizer = access.authorizer else { return proceed(self, request) }
        let credentials = request.credentials
        if let ticket = credentials.ticket {
            return proceed(self, redeem(ticket, with: authorizer, for: request))
        }
        var request = request
        let question =
            access.isForHook(credentials)
            ? request.question(authorizer.hook.names, allowedOrigins: shard.settings.allowedOrigins) : nil
        request.question = question?.digest
        let token = question == nil ? authorizer.unknownToken(in: credentials) : nil
        guard question != nil || token != nil else { return proceed(self, request) }
        if peer.ledger.isGuessing(peer.address) {
            request.verification = .refused(.overRate)
            return proceed(self, request)
        }
        let done: @Sendable (Denial?) -> Void = { [self, loop = shard.loop, request] denial in
            loop.execute { [self] in
                // A client that closes before the answer must not guess for free.
                guard shard.connections[ObjectIdentifier(self)] != nil else {
                    return peer.ledger.countUnanswered(denial, of: peer.address)
                }
                var request = request
                request.verification = denial.map(Credentials.Verification.refused) ?? .good
                proceed(self, request)
            }
        }
        if let question { authorizer.hook.ask(question, weight: request.weight, done) }
        if let token { authorizer.tokens.verify(token, weight: request.weight, done) }
    }

    /// A ticket is good once, so it is taken before anything else is asked, and only where it may be.
    private func redeem(_ ticket: String, with authorizer: Authorizer, for request: FrontRequest) -> FrontRequest {
        var request = request
        do throws(Denial) {
            if peer.ledger.isGuessing(peer.address) { throw .overRate }
            guard request.head.method == .GET, ["/v1/events", "/v1/poll"].contains(request.path) else {
                throw .malformed
            }
            request.verification = .redeemed(try authorizer.tickets.redeem(ticket))
        } catch {
            request.verification = .refused(error)
        }
        return request
    }

    func proceed(_ request: FrontRequest) {
        shard.loop.assertInEventLoop()
        if request.verification == .refused(.notReady), shard.settings.access.mode == .enforce {
            shard.settings.countRefusal(.notReady, of: request)
            return refuseForNow(request)
        }
        // A client that was told of a version elsewhere is never shown an older one here.
        whenCurrent { $0.arrive(request) }
    }

    /// Does `body` when the loop has taken what clients may have been told of, unless the connection has ended by then.
    func whenCurrent(_ body: @escaping (FrontConnection) -> Void) {
        shard.whenCurrent { [self] in if shard.connections[ObjectIdentifier(self)] != nil { body(self) } }
    }

    private func arrive(_ request: FrontRequest) {
        guard let gate = shard.freshness, !peer.isCanary else { return route(request) }
        routeWhenFresh(request, gate)
    }

    func route(_ request: FrontRequest) {
        if peer.isCanary { return serveCanary(request) }
        switch shard.router.route(request) {
        case .respond(let response):
            let response =
                response.status == 401 && !peer.ledger.mayFail(peer.address)
                ? FrontResponse(.denied(.overRate)) : response
            count(response, to: request)
            respond(response, to: request)
        case .fetched(let answer):
            let codings = request.head.headers.first(name: "accept-encoding")
            respond(
                answer, admitsGzip: codings.map(ContentCoding.admitsGzip) ?? false, origin: request.origin,
                unverified: request.unverified, beganAt: request.beganAt)
        case .claim(let client, let scope, let claim): take(claim, of: client, scope, request)
        case .subscribe(let subscription):
            if request.head.method == .HEAD { return respondToHead(of: subscription, request) }
            if waits(subscription, request) { return }
            subscribe(subscription, as: request)
        }
    }

    /// A fetch of our own, on a connection that this process made.
    private func serveCanary(_ request: FrontRequest) {
        guard let scope = shard.served.scope(atPath: request.path),
            // Refused: the connection closes, and the observation keeps no `fetched`.
            case .fetched(let answer)? = try? shard.router.fetch(scope, request)
        else { return connection.close() }
        write(answer.bytes, origin: request.origin, unverified: nil)
    }

    /// Reads a fetch that came whole as the engine does. What that leaves to the Front goes to the parser.
    func serve(whole bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        let settings = shard.settings
        guard bytes.first == UInt8(ascii: "P"), settings.access.mode == .off, peer.isOrdinary, shard.freshness == nil,
            !shard.isBehind, !shard.isDraining,
            case .fetch(let head)? = Recogniser.find(
                bytes, maxTopics: settings.maxTopicsPerStream, hosts: settings.connections.hosts),
            head.length <= settings.connections.maxHeadBytes, bytes.count - head.length <= settings.maxBodyBytes,
            let scope = shard.served.scope(atPath: String(decoding: bytes[head.path], as: UTF8.self)[...]),
            settings.mayFetch(head.credentials, from: scope.scope)
        else { return false }
        let (beganAt, body) = (stalecast_monotonic_ns(), UnsafeBufferPointer(rebasing: bytes[head.length...]))
        guard let answer = scope.answerAtOnce(body, ifNoneMatch: head.ifNoneMatch, address: peer.address) else {
            return false
        }
        connection.recognised(keepsAlive: head.keepAlive)
        respond(answer, admitsGzip: head.admitsGzip, origin: head.origin, unverified: nil, beganAt: beganAt)
        return true
    }

    func count(_ response: FrontResponse, to request: FrontRequest) {
        if let event = response.installation { shard.audience.tally.fetches.count(event) }
        if response.isOfDroppedEvents { shard.audience.tally.fetches.countDroppedEvents() }
        guard response.status >= 400, !request.mayBeStream else { return }
        shard.audience.tally.fetches.countRefusal(status: response.status)
        if response.status >= 500 { noteRefusal(response.status, of: request) }
    }

    /// Notes a refusal that the client did not cause as evidence of too many fetches, when the client may fetch.
    private func noteRefusal(_ status: Int, of request: FrontRequest) {
        guard !request.mayBeStream, let scope = shard.served.scope(atPath: request.path)?.scope,
            shard.settings.permits(request.credentials, { $0.may(.fetch, in: scope) })
        else { return }
        shard.hub.propagation.refused(scope, status: status)
    }

    /// Whether a claim was believed is not told to the client; only too many of them are refused.
    private func take(_ claim: ClientReport, of client: ClientIdentity, _ scope: Scope, _ request: FrontRequest) {
        do throws(ClientReport.Refusal) {
            try shard.hub.propagation.claimed(client, scope, claim, address: peer.clientAddress)
        } catch {
            if error == .budget { return respond(FrontResponse(.tooManyReports), to: request) }
        }
        respond(FrontResponse(status: 204), to: request)
    }

    private func subscribe(_ request: StreamRequest, as whole: FrontRequest) {
        // The drain has spread the ends of subscribers: this one would be cut instead of ended.
        if shard.isDraining { return refuseForNow(whole) }
        makeRoomForFetches(false)
        if connection.isAlone, request.round == nil, peer.promote(request, from: connection) {
            return connection.abandon()
        }
        // The router found them a moment ago, on this loop.
        guard let topics = try? shard.settings.admit(request, on: shard.board, counts: false) else {
            return respond(FrontResponse(.unknownTopic), to: whole)
        }
        connection.hold()
        shard.subscribe(self, request, topics)
    }

    // MARK: Answers

    private func cors(_ request: FrontRequest) -> String {
        ResponseHead.corsFields(origin: request.origin, allowed: shard.settings.allowedOrigins)
    }

    func respond(_ response: FrontResponse, to request: FrontRequest) {
        var answer = Answer(status: response.status, contentType: response.type, body: response.body)
        answer.fields = response.fields
        answer.caching = response.caching
        answer.closesConnection = response.status >= 500 || shard.isDraining || peer.isRefused
        let anyPage = "Access-Control-Allow-Origin: *\r\n"
        connection.answer(answer, cors: response.isForAnyPage ? anyPage : cors(request))
    }

    private func respond(
        _ answer: FetchAnswer, admitsGzip: Bool, origin: String?, unverified: Int?, beganAt: UInt64
    ) {
        var answer = answer
        answer.bytes = answer.bytes.coded(admitsGzip: admitsGzip)
        shard.audience.tally.fetches.count(answer)
        write(answer.bytes, origin: origin, unverified: unverified)
        shard.hub.propagation.fetched(
            answer.client, answer.scope, answer.version, seconds: shard.seconds(since: beganAt),
            address: peer.clientAddress)
    }

    /// Writes a head of this request's own and a body that all share, in one system call.
    private func write(_ bytes: FetchBytes, origin: String?, unverified: Int?) {
        let keepAlive = connection.keepsAlive && !shard.isDraining
        var fields = ResponseHead.corsFields(origin: origin, allowed: shard.settings.allowedOrigins)
        if let seconds = unverified { fields += "X-Stalecast-Unverified: \(seconds)\r\n" }
        if !keepAlive { fields += "Connection: close\r\n" }
        if bytes.body.readableBytes > StreamEngine.sendBuffer { makeRoomForFetches(true) }
        let (first, rest) = bytes.pieces(ending: shard.audience.bytes.fetchEnding(fields))
        if let rest {
            connection.writeFirst(first)
            connection.write(rest)
        } else {
            connection.write(first)
        }
        // A client that has fetched over TLS will fetch again, which the engine answers at a third of the cost.
        if keepAlive, shard.freshness == nil, connection.isAlone, peer.promoteIdle(from: connection) {
            return connection.abandon()
        }
        connection.ended(keepAlive: keepAlive)
    }

    private func makeRoomForFetches(_ isWanted: Bool) {
        guard isWanted != hasRoomForFetches, !connection.isStream else { return }
        hasRoomForFetches = isWanted
        let size = Int(isWanted ? StreamEngine.fetchSendBuffer : StreamEngine.sendBuffer)
        // A channel that is being closed has no options any more; then nothing goes out either.
        try? connection.channel?.syncOptions?.setOption(.socketOption(.so_sndbuf), value: SocketOptionValue(size))
    }

    private func respondToHead(of subscription: StreamRequest, _ request: FrontRequest) {
        if subscription.kind == .events || subscription.kind == .pings {
            let dialect = StreamDialect(isHTTP11: request.isHTTP11, kind: subscription.kind)
            send(ResponseHead.stream(dialect, cors: cors(request), date: shard.audience.bytes.date.string()))
            return finished(keepAlive: connection.keepsAlive)
        }
        respond(FrontResponse(fields: PollDialect.etagField(shard.board.head)), to: request)
    }

    /// Refuses a request over a cap, or whose caller cannot be judged yet: the client should try again.
    func refuseForNow(_ request: FrontRequest) {
        // The refusal of an invalidation stream names the newest version.
        whenCurrent { $0.refuseNow(request) }
    }

    private func refuseNow(_ request: FrontRequest) {
        // Only the renderer's own refusals say that there are too many fetches: connections over a cap, and credentials
        // that cannot be judged yet, are a stranger's choice.
        let operation = operation(request)
        let version = operation?.kind == .invalidations ? operation.flatMap { newestVersion($0.names, request) } : nil
        let isStream = version != nil || operation?.kind == .events && request.head.method == .GET
        let retry = shard.isDraining ? shard.drainRetryMs() : shard.audience.policy.refusalRetryMs()
        send(
            Refusals.forNow(
                isStream ? operation?.kind.map { StreamDialect(isHTTP11: request.isHTTP11, kind: $0) } : nil,
                version: version ?? 0, cors: cors(request), retryMs: retry,
                date: shard.audience.bytes.date.string()))
        closeWhenWritten()
    }

    /// nil for what is no operation: it is refused as everything else.
    private func operation(_ request: FrontRequest) -> (kind: StreamRequest.Kind?, names: PathValues)? {
        let match = try? EdgeOperations.table.find(request.head.method.rawValue, request.path)
        guard case .operation(let operation, let names)? = match else { return nil }
        return (operation.handler.stream, names)
    }

    /// Newest version of the scope in a path; nil for an unknown one, or for a client that may not know.
    private func newestVersion(_ names: PathValues, _ request: FrontRequest) -> VersionNumber? {
        guard shard.settings.access.mode != .enforce,
            (try? shard.settings.keys.check(request.credentials.plainKey)) != nil,  // refused: no version to tell
            let scope = try? shard.served.scope(names["project"], names["namespace"]).scope,
            let topic = shard.board.invalidations(of: scope)
        else { return nil }
        return shard.board[topic].latest?.version ?? 0
    }

    // MARK: What a subscriber needs

    var address: UInt64 { peer.address }
    var isWritable: Bool { connection.isWritable }

    func send(_ bytes: [UInt8]) { connection.write(bytes) }

    /// An answer was written: the connection waits for the next request, or ends.
    func finished(keepAlive: Bool) {
        connection.ended(keepAlive: keepAlive)
    }

    func closeWhenWritten() {
        connection.finish()
    }

    func close() { connection.close() }

    func drain() {
        shard.loop.assertInEventLoop()
        if let seat { shard.end(seat, .drain) }
    }

    func becameWritable() {
        shard.loop.assertInEventLoop()
        if let seat { shard.becameWritable(seat) }
    }
}
