import CLinux
import Logging
import NIOCore
import NIOPosix
import StalecastHTTP
import StalecastHub
import Synchronization

/// Edge's general half: HTTP of every shape on NIO. With the engine on it gets the connections the engine does not
/// recognise; without it, it listens itself and holds every stream.
final class Front: Sendable {
    let shards: [FrontShard]
    private let group: MultiThreadedEventLoopGroup
    private let ledger: AddressLedger
    private let logger: Logger
    private let next = Atomic<Int>(0)
    private let engine = Mutex<StreamEngine?>(nil)

    init(
        threads: Int, hub: Hub, served: ServedTemplates, ledger: AddressLedger, settings: EdgeSettings, logger: Logger
    ) {
        group = MultiThreadedEventLoopGroup(numberOfThreads: threads)
        self.ledger = ledger
        self.logger = logger
        shards = group.makeIterator().map { FrontShard(loop: $0, hub: hub, served: served, settings: settings) }
    }

    /// Joins the hub. `engine` takes over plain streams; nil keeps them here.
    func start(engine: StreamEngine?) async throws {
        self.engine.withLock { $0 = engine }
        for shard in shards { try await shard.attach().get() }
    }

    /// Takes a connected descriptor with unread input from the engine.
    func adopt(_ fd: Int32, _ address: UInt64, isRefused: Bool) {
        let shard = shards[next.wrappingAdd(1, ordering: .relaxed).oldValue % shards.count]
        let engine = engine.withLock { $0 }
        let peer = FrontPeer(address: address, isRefused: isRefused, ledger: ledger, fd: fd, engine: engine)
        ClientBootstrap(group: shard.loop)
            .channelOption(.allowRemoteHalfClosure, value: true)
            .channelOption(.writeBufferWaterMark, value: .init(low: 1, high: 1))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try Self.fill(channel, shard, peer) }
            }
            .withConnectedSocket(fd)
            .whenFailure { [logger] error in
                // Whoever comes first counts it out: the connection may have been made already.
                peer.release()
                logger.debug("connection lost at hand-over", metadata: ["error": "\(error)"])
            }
    }

    /// Listens itself; for Edge without the engine.
    ///
    /// - Throws: ``EdgeError`` when the address cannot be bound.
    func listen(host: String, port: Int) async throws -> HTTPListener {
        let shards = Dictionary(uniqueKeysWithValues: shards.map { (ObjectIdentifier($0.loop), $0) })
        let (ledger, first) = (ledger, self.shards[0])
        do {
            return try await HTTPListener.open(
                host: host, port: port, group: group, sendBuffer: StreamEngine.sendBuffer,
                hasRoom: { ledger.total < first.lastMaxConnections + Shard.refusalHeadroom }
            ) { channel in
                guard let shard = shards[ObjectIdentifier(channel.eventLoop)] else { return }
                let address = Self.key(channel.remoteAddress)
                let admission = ledger.enter(address, settings: shard.settings)
                shard.tally.accepted += 1
                if admission != .admitted {
                    let cap: DropReason = admission == .overTotal ? .capacity : .addressCapacity
                    shard.tally.refused[cap, default: 0] += 1
                }
                let peer = FrontPeer(
                    address: address, isRefused: admission != .admitted, ledger: ledger, fd: nil, engine: nil)
                try Self.fill(channel, shard, peer)
            }
        } catch let error as IOError {
            throw EdgeError.cannotListen(address: "\(host):\(port)", errno: error.errnoCode)
        }
    }

    private static func fill(_ channel: any Channel, _ shard: FrontShard, _ peer: FrontPeer) throws {
        do {
            try HTTPConnection.open(on: channel, limits: shard.settings.connections, loop: shard.http) {
                FrontConnection(shard: shard, peer: peer, connection: $0)
            }
        } catch {
            peer.release()
            throw error
        }
    }

    /// The ledger's key of the peer, as the engine makes it.
    private static func key(_ address: SocketAddress?) -> UInt64 {
        address?.withSockAddr { bytes, _ in stalecast_address_key(bytes) } ?? 0
    }

    func apply(_ settings: EdgeSettings) {
        for shard in shards { shard.loop.execute { shard.settings = settings } }
    }

    func presence() async -> Presence {
        var presence = Presence()
        for shard in shards {
            // A loop that was shut down has nobody left to count.
            let part = try? await shard.loop.submit { shard.presence() }.get()
            presence.merge(part ?? Presence())
        }
        return presence
    }

    func drain(over milliseconds: Int) {
        for shard in shards { shard.loop.execute { shard.drain(over: milliseconds) } }
    }

    /// Closes what is left and ends the threads.
    func stop() async throws {
        for shard in shards { try await shard.loop.submit { shard.closeAll() }.get() }
        try await group.shutdownGracefully()
    }

    /// Connections of any kind that the Front holds.
    func connectionCount() async -> Int {
        var count = 0
        for shard in shards {
            // As above.
            count += (try? await shard.loop.submit { shard.connections.count }.get()) ?? 0
        }
        return count
    }
}
