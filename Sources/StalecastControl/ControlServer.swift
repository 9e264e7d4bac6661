package import NIOCore
import ServiceLifecycle
import StalecastHTTP
import StalecastWire

/// The private listener as a service. It runs until graceful shutdown; then it stops accepting, lets requests that have
/// begun finish, publishes among them, and returns.
package struct ControlServer: Service {
    private let control: Control
    private let eventLoopGroup: any EventLoopGroup
    private let onBound: @Sendable (_ port: Int) -> Void

    /// - Parameter onBound: called once, when connections are accepted, with the port really bound.
    package init(
        _ control: Control, eventLoopGroup: any EventLoopGroup,
        onBound: @escaping @Sendable (_ port: Int) -> Void = { _ in }
    ) {
        (self.control, self.eventLoopGroup, self.onBound) = (control, eventLoopGroup, onBound)
    }

    /// - Throws: NIO's `IOError` when the address cannot be bound.
    package func run() async throws {
        let (control, configuration) = (control, control.configuration)
        let capacity = configuration.capacity
        let loops = Dictionary(
            uniqueKeysWithValues: eventLoopGroup.makeIterator().map { (ObjectIdentifier($0), ConnectionLoop($0)) })
        if let first = loops.values.first {
            capacity.follow { excess in
                first.loop.flatSubmit { first.makeRoom(for: excess, orIn: Self.others(than: first, in: loops)) }
            }
        }
        let listener = try await HTTPListener.open(
            .address(host: configuration.host, port: configuration.port), group: eventLoopGroup,
            hasRoom: { capacity.hasRoom }
        ) { channel in
            guard let loop = loops[ObjectIdentifier(channel.eventLoop)] else {
                return channel.eventLoop.makeSucceededVoidFuture()
            }
            // A connection that asks nothing makes room: strangers must not keep probes and operators out.
            let room = capacity.add(channel) { loop.makeRoom(for: $0, orIn: Self.others(than: loop, in: loops)) }
            return (room ?? loop.loop.makeSucceededFuture(true)).flatMapThrowing { hasRoom in
                try Self.meet(channel, loop, configuration) { peer in
                    let make = { ControlConnection(control, loop.loop, peer, $0) }
                    return Reception(
                        refusal: hasRoom ? nil : .tooManyConnections, connection: make,
                        stream: { stream in
                            Reception(
                                refusal: capacity.add(stream: stream) ? nil : .tooManyConnections, connection: make)
                        })
                }
            }
        }
        onBound(listener.port)
        // Cancellation means another service failed: the end is the same.
        try? await gracefulShutdown()
        await listener.close()
        for loop in loops.values { try await loop.loop.flatSubmit { loop.drain() }.get() }
    }

    private static func others(
        than loop: ConnectionLoop, in loops: [ObjectIdentifier: ConnectionLoop]
    ) -> [ConnectionLoop] {
        loops.values.filter { $0 !== loop }
    }

    /// Finds the client's address before anything else is read. Where proxies name it, no other peer is admitted.
    private static func meet(
        _ channel: any Channel, _ loop: ConnectionLoop, _ configuration: ControlConfiguration,
        _ reception: @escaping (IPAddress?) -> Reception
    ) throws {
        let (peer, proxies) = (IPAddress(channel.remoteAddress), configuration.settings.proxies)
        func receive(_ client: IPAddress?) throws {
            try loop.receive(channel, limits: configuration.connections, tls: configuration.tls, reception(client))
        }
        guard proxies.speakPROXY else { return try receive(peer) }
        guard let peer, proxies.trust(peer) else { throw ChannelError.eof }
        try loop.awaitProxyHeader(on: channel, limits: configuration.connections) { arrival in
            if case .client(let source) = arrival { try receive(source ?? peer) }
        }
    }
}
