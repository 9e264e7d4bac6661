import StalecastWire
import CLinux
import Foundation
import Logging
import StalecastHTTP
import Synchronization

/// The stream engine: one shard and one thread per core, all listening on one address.
final class StreamEngine: Sendable {
    let shards: [Shard]
    let port: UInt16
    private let next = Atomic<Int>(0)

    /// Send buffer of a socket in bytes. The kernel doubles the number, and may hold that much for one stalled reader.
    static let sendBuffer = 16_384
    /// The send buffer while a fetch's answer is written: with the small one it would leave in many writes, with a turn of
    /// the loop before each.
    static let fetchSendBuffer = 212_992
    static let backlog: Int32 = 4096
    /// Unacknowledged data for so long means a dead peer (`TCP_USER_TIMEOUT`), in milliseconds: 30 s, or longer than
    /// the write-stall limit, because the kernel counts a peer that reads nothing as one that is dead.
    static func userTimeoutMs(_ settings: EdgeSettings) -> UInt32 {
        UInt32(clamping: max(30_000, settings.connections.writeStallLimit.milliseconds + 15_000))
    }

    init(
        _ options: EdgeServer.Options, _ context: EdgeContext, settings: EdgeSettings, front: Front
    ) throws(EdgeError) {
        let listeners = try Listeners.open(
            host: options.host, port: options.port, handed: options.listener, count: options.threads,
            userTimeoutMs: Self.userTimeoutMs(settings))
        self.port = stalecast_local_port(listeners[0])
        var shards: [Shard] = []
        for (number, listener) in listeners.enumerated() {
            shards.append(
                try Shard(
                    number: number, listener: listener, context, settings: settings,
                    handOver: { front.adopt($0) }, makeRoomInFront: { front.makeRoom() }))
        }
        self.shards = shards
    }

    func start() {
        for shard in shards {
            shard.attach()
            Thread.detachNewThread {
                stalecast_name_thread(shard.gauges.name)
                shard.run()
            }
        }
    }

    func post(_ event: Shard.Event) {
        for shard in shards { shard.post(event) }
    }

    /// Gives a connection, or a canary, to the shards in turn.
    func postToNext(_ event: Shard.Event) {
        let turn = next.wrappingAdd(1, ordering: .relaxed).oldValue
        shards[turn % shards.count].post(event)
    }

    /// Answers of all shards, each from its thread; none of those that have stopped.
    func answers<Answer: Sendable>(_ question: @escaping @Sendable (Shard) -> Answer) async -> [Answer] {
        var answers: [Answer?] = []
        for shard in shards {
            answers.append(
                await withCheckedContinuation { reply in shard.post(.ask { reply.resume(returning: $0.map(question)) })
                })
        }
        return answers.compactMap(\.self)
    }

    enum Listeners {
        /// Opens `count` sockets with `SO_REUSEPORT`. Since that would let a second daemon of the same user share the
        /// port unnoticed, the port must first be free for a socket without it.
        ///
        /// - Parameter handed: a socket that is there already; all listen on it then, and take what comes in turn.
        static func open(
            host: String, port: UInt16, handed: Int32?, count: Int, userTimeoutMs: UInt32
        ) throws(EdgeError) -> [Int32] {
            let isIPv6 = host.contains(":")
            if let handed {
                var listeners: [Int32] = []
                for _ in 0..<count { listeners.append(try adopt(handed, host, port, userTimeoutMs)) }
                return listeners
            }
            let probe = try listen(host, port, isIPv6, share: false, userTimeoutMs)
            let free = stalecast_local_port(probe)
            close(probe)
            var listeners: [Int32] = []
            for _ in 0..<count { listeners.append(try listen(host, free, isIPv6, share: true, userTimeoutMs)) }
            return listeners
        }

        /// A descriptor of our own for a socket that another thread has opened.
        static func adopt(
            _ handed: Int32, _ host: String, _ port: UInt16, _ userTimeoutMs: UInt32
        ) throws(EdgeError) -> Int32 {
            let isIPv6 = host.contains(":")
            let fd = stalecast_adopt_listener(
                handed, host, port, isIPv6, userTimeoutMs, Int32(StreamEngine.sendBuffer))
            guard fd < 0 else { return fd }
            let address = HostPort.text(host, port)
            throw errno == EADDRNOTAVAIL ? .otherSocket(address) : .cannotListen(address: address, errno: errno)
        }

        private static func listen(
            _ host: String, _ port: UInt16, _ isIPv6: Bool, share: Bool, _ userTimeoutMs: UInt32
        ) throws(EdgeError) -> Int32 {
            let fd = stalecast_listen(
                host, port, isIPv6, share, StreamEngine.backlog, userTimeoutMs,
                Int32(StreamEngine.sendBuffer))
            guard fd < 0 else { return fd }
            if errno == EINVAL { throw .badAddress(host) }
            throw .cannotListen(address: HostPort.text(host, port), errno: errno)
        }
    }
}
