import CLinux
import Logging
import NIOCore
import NIOPosix
import StalecastHTTP
import StalecastHub
import StalecastWire
import Synchronization

/// Edge's general half: HTTP of every shape on NIO. With the engine on it gets the connections the engine does not
/// recognise; without it, it listens itself and holds every stream.
final class Front: Sendable {
    let shards: [FrontShard]
    private let group: MultiThreadedEventLoopGroup
    private let context: EdgeContext
    private let next = Atomic<Int>(0)
    private let engine = Mutex<StreamEngine?>(nil)
    private let hasStopped = Mutex(false)
    /// Caps as of the last settings, for all threads.
    private let caps: Mutex<ConnectionCaps>

    /// - Parameter nice: how far its threads stand behind the process's others; 0 to 19.
    init(threads: Int, nice: Int32, _ context: EdgeContext, settings: EdgeSettings) {
        group = MultiThreadedEventLoopGroup(numberOfThreads: threads)
        if nice > 0 {
            for loop in group.makeIterator() { loop.execute { stalecast_nice_thread(nice) } }
        }
        self.context = context
        caps = Mutex(settings.caps)
        shards = group.makeIterator().enumerated().map { number, loop in
            FrontShard(number: number, loop: loop, context, settings: settings)
        }
    }

    private var nextShard: FrontShard { shards[next.wrappingAdd(1, ordering: .relaxed).oldValue % shards.count] }

    private var ledger: AddressLedger { context.ledger }
    private var tls: TLSServer? { context.tls }
    private var logger: Logger { context.logger }

    /// Joins the hub. `engine` takes over plain streams; nil keeps them here.
    func start(engine: StreamEngine?) async throws {
        self.engine.withLock { $0 = engine }
        for shard in shards { try await shard.attach().get() }
    }

    /// Takes a connected descriptor from the engine, with the input that was read; with TLS when the engine had it before.
    func adopt(_ given: Shard.Handover) {
        let (shard, engine) = (nextShard, engine.withLock { $0 })
        let peer = FrontPeer(
            address: given.address, proxy: given.proxy, isRefused: given.isRefused, ledger: ledger, fd: given.fd,
            isTLS: tls != nil, isReturned: given.tls != nil, engine: engine)
        let returning = given.tls.map(ReturningTLS.init)
        // On the loop, so that nothing is read from the socket between the channel's beginning and what is passed on.
        shard.loop.execute { [self] in connect(given.fd, shard, peer, tls, returning, input: given.input) }
    }

    private func connect(
        _ fd: Int32, _ shard: FrontShard, _ peer: FrontPeer, _ tls: TLSServer?, _ returning: ReturningTLS? = nil,
        input: [UInt8] = []
    ) {
        ClientBootstrap(group: shard.loop)
            .channelOption(.allowRemoteHalfClosure, value: true)
            .channelOption(.writeBufferWaterMark, value: .init(low: 1, high: 1))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try Self.fill(channel, shard, peer, tls, returning) }
            }
            .withConnectedSocket(fd)
            .whenComplete { [logger] result in
                switch result {
                case .success(let channel): Self.pass(input, to: channel)
                case .failure(let error):
                    // The first of the two counts it out: the connection may have been made already.
                    peer.release()
                    logger.debug("connection lost at hand-over", metadata: ["error": "\(error)"])
                }
            }
    }

    /// Passes on what the engine has read. A channel reads nothing before its loop's next look at the sockets, so this
    /// comes before what is in the socket.
    private static func pass(_ input: [UInt8], to channel: any Channel) {
        guard !input.isEmpty else { return }
        channel.eventLoop.assertInEventLoop()
        let pipeline = channel.pipeline.syncOperations
        pipeline.fireChannelRead(NIOAny(ByteBuffer(bytes: input)))
        pipeline.fireChannelReadComplete()
    }

    /// Takes the other end of a fetch of our own.
    func adoptCanary(_ fd: Int32) {
        connect(fd, nextShard, FrontPeer(address: 0, ledger: ledger, isCanary: true), nil)
    }

    /// Closes soon a connection that has asked nothing for ``ConnectionCaps/silence``. Any thread.
    ///
    /// - Returns: false when there is none.
    @discardableResult
    func makeRoom() -> Bool {
        let silence = caps.withLock { $0.silence }
        return shards.contains { $0.http.makeRoomSoon(silentFor: silence) }
    }

    func seatCanary(_ end: CanaryEnd, of scope: Scope) {
        let shard = nextShard
        shard.loop.execute { shard.seatCanary(end, of: scope) }
    }

    /// Listens itself; for Edge without the engine.
    ///
    /// - Throws: ``EdgeError`` when the address cannot be bound.
    func listen(host: String, port: UInt16, handed: Int32?) async throws -> HTTPListener {
        // What Edge's settings say about it may come later; the kernel's default is 30 s as well.
        let socket = try handed.map { handed throws(EdgeError) in
            HTTPListener.BindAddress.socket(try StreamEngine.Listeners.adopt(handed, host, port, 30_000))
        }
        let shards = Dictionary(uniqueKeysWithValues: shards.map { (ObjectIdentifier($0.loop), $0) })
        do {
            return try await HTTPListener.open(
                socket ?? .address(host: host, port: Int(port)), group: group, sendBuffer: StreamEngine.sendBuffer,
                hasRoom: { [self] in
                    if ledger.total < caps.withLock({ $0.connections }) + Shard.refusalHeadroom { return true }
                    // It is looked at again soon.
                    makeRoom()
                    return false
                }
            ) { [self] channel in
                channel.eventLoop.makeCompletedFuture {
                    guard let shard = shards[ObjectIdentifier(channel.eventLoop)] else { return }
                    shard.audience.tally.accepted += 1
                    try meet(channel, shard)
                }
            }
        } catch let error as IOError {
            throw EdgeError.cannotListen(address: HostPort.text(host, port), errno: error.errnoCode)
        }
    }

    /// A connection of Edge's own listener, before anything is read from it.
    private func meet(_ channel: any Channel, _ shard: FrontShard) throws {
        let (peer, proxies) = (IPAddress(channel.remoteAddress), shard.settings.proxies)
        let proxy = peer.flatMap { proxies.trust($0) ? $0 : nil }
        guard proxies.speakPROXY else { return try take(channel, of: peer, proxy, shard) }
        guard let proxy else {
            shard.audience.tally.refused[.untrustedPeer, default: 0] += 1
            throw ChannelError.eof
        }
        _ = ledger.enter(AddressLedger.unknown, caps: shard.settings.caps)
        try shard.http.awaitProxyHeader(on: channel, limits: shard.settings.connections) { [self] arrival in
            ledger.leave(AddressLedger.unknown)
            switch arrival {
            case .client(let source):
                let client = source ?? proxy
                let next = source.map { proxies.trust($0) ? $0 : nil } ?? proxy
                try take(channel, of: client, next, shard)
            case .invalid: shard.audience.tally.refused[.proxyHeader, default: 0] += 1
            case .timedOut: shard.count(.headTimeout)
            case .gone: break
            }
        }
    }

    /// - Parameter proxy: the client, when it is trusted to speak for others.
    private func take(
        _ channel: any Channel, of client: IPAddress?, _ proxy: IPAddress?, _ shard: FrontShard
    ) throws {
        let address = proxy == nil ? client?.key ?? AddressLedger.unknown : AddressLedger.unknown
        let isFull = ledger.total >= shard.settings.caps.connections
        let hasMadeRoom = isFull && shard.http.makeRoom(for: 1, silentFor: shard.settings.caps.silence)
        // The one that makes room is counted out in a moment.
        let admission = ledger.enter(address, caps: shard.settings.caps, above: hasMadeRoom ? 1 : 0)
        if admission != .admitted {
            let cap: DropReason = admission == .overTotal ? .capacity : .addressCapacity
            shard.audience.tally.refused[cap, default: 0] += 1
        }
        let peer = FrontPeer(
            address: address, proxy: proxy, isRefused: admission != .admitted, ledger: ledger)
        try Self.fill(channel, shard, peer, tls)
    }

    private static func fill(
        _ channel: any Channel, _ shard: FrontShard, _ peer: FrontPeer, _ tls: TLSServer?,
        _ returning: ReturningTLS? = nil
    ) throws {
        do {
            if let tls, returning == nil, !admits(peer, shard, tls) { throw ChannelError.eof }
            try shard.http.receive(
                channel, limits: shard.settings.connections, tls: tls, returning: returning, reception(of: peer, shard))
        } catch {
            peer.release()
            throw error
        }
    }

    private static func reception(of peer: FrontPeer, _ shard: FrontShard) -> Reception {
        Reception(
            connection: { FrontConnection(shard: shard, peer: peer, connection: $0) },
            stream: { _ in stream(of: peer, shard) }, fault: { shard.count($0) },
            gone: { peer.release() })
    }

    /// A stream of an HTTP/2 connection is counted as a connection is.
    private static func stream(of carrier: FrontPeer, _ shard: FrontShard) -> Reception {
        let address = carrier.proxy == nil ? carrier.address : AddressLedger.unknown
        let admission = carrier.ledger.enter(address, caps: shard.settings.caps)
        let peer = FrontPeer(
            address: address, proxy: carrier.proxy, isRefused: admission != .admitted, ledger: carrier.ledger)
        return Reception(
            connection: { FrontConnection(shard: shard, peer: peer, connection: $0) }, gone: { peer.release() })
    }

    /// Whether the peer's address may begin another handshake this second.
    private static func admits(_ peer: FrontPeer, _ shard: FrontShard, _ tls: TLSServer) -> Bool {
        let isFree = peer.proxy != nil || stalecast_is_loopback_key(peer.address)
        let limit = isFree ? 0 : shard.settings.caps.handshakesPerAddress
        return tls.admits(peer.address, limit: limit, at: stalecast_monotonic_ns())
    }

    func apply(_ settings: EdgeSettings) {
        caps.withLock { $0 = settings.caps }
        for shard in shards { shard.loop.execute { shard.apply(settings) } }
    }

    func accessChanged() {
        for shard in shards { shard.loop.execute { shard.recheckAccess() } }
    }

    func drain(over milliseconds: Int) {
        for shard in shards { shard.loop.execute { shard.drain(over: milliseconds) } }
    }

    func stop() async throws {
        hasStopped.withLock { $0 = true }
        for shard in shards { try await shard.loop.submit { shard.closeAll() }.get() }
        try await group.shutdownGracefully()
    }

    func connectionCount() async -> Int {
        await answers { $0.http.count }.reduce(0, +)
    }

    /// Answers of all shards, each from its loop; none once they have stopped: a loop that was shut down never answers,
    /// and its caller would wait for ever.
    func answers<Answer: Sendable>(
        _ question: @escaping @Sendable (FrontShard) -> Answer
    ) async -> [Answer] {
        var answers: [Answer] = []
        for shard in shards {
            let answer = await withCheckedContinuation { (reply: CheckedContinuation<Answer?, Never>) in
                let isOver = hasStopped.withLock { hasStopped in
                    if hasStopped { return true }
                    shard.loop.execute {
                        // A loop without subscribers is not woken by a publish: its last version may be an older one.
                        shard.catchUp()
                        reply.resume(returning: question(shard))
                    }
                    return false
                }
                if isOver { reply.resume(returning: nil) }
            }
            if let answer { answers.append(answer) }
        }
        return answers
    }
}
