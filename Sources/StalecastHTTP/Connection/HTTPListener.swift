package import NIOCore
import NIOPosix

/// A listening socket whose connections are made by `accept`, on their event loops.
package struct HTTPListener: Sendable {
    private let channel: any Channel

    /// Connections that the kernel may queue before they are accepted.
    private static let backlog: Int32 = 4096

    package enum BindAddress: Sendable {
        case address(host: String, port: Int)
        /// A socket that listens already, and is closed with the listener.
        case socket(Int32)
    }

    /// - Parameters:
    ///   - sendBuffer: bytes the kernel may hold for a client; nil leaves it to the kernel.
    ///   - hasRoom: false stops accepting for a moment.
    ///   - accept: on the connection's event loop; nothing is read from it before this completes.
    /// - Throws: NIO's `IOError` when the address cannot be bound.
    package static func open(
        _ address: BindAddress, group: any EventLoopGroup, sendBuffer: Int? = nil,
        hasRoom: @escaping @Sendable () -> Bool,
        accept: @escaping @Sendable (any Channel) -> EventLoopFuture<Void>
    ) async throws -> HTTPListener {
        var bootstrap = ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: backlog)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .serverChannelOption(.maxMessagesPerRead, value: 16)
            .serverChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(AcceptPacer(hasRoom: hasRoom))
                }
            }
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            // Marks of one byte make a channel writable only when the kernel has taken everything.
            .childChannelOption(.writeBufferWaterMark, value: .init(low: 1, high: 1))
            .childChannelInitializer(accept)
        if let sendBuffer {
            bootstrap = bootstrap.childChannelOption(
                .socketOption(.so_sndbuf), value: SocketOptionValue(sendBuffer))
        }
        let bound =
            switch address {
            case .address(let host, let port): bootstrap.bind(host: host, port: port)
            case .socket(let descriptor): bootstrap.withBoundSocket(descriptor)
            }
        return HTTPListener(channel: try await bound.get())
    }

    /// Port that is bound, also where any free port was asked for.
    package var port: Int { channel.localAddress?.port ?? 0 }

    package func close() async {
        // Fails when the listener is closed already.
        try? await channel.close()
    }

    /// Stops accepting when connections beyond the cap are enough to be refused, or when descriptors run out, and looks
    /// again ten times a second: a full daemon must not spin.
    private final class AcceptPacer: ChannelInboundHandler {
        typealias InboundIn = any Channel

        private let hasRoom: () -> Bool
        private static let pause: TimeAmount = .milliseconds(100)
        private var isPaused = false

        init(hasRoom: @escaping () -> Bool) { self.hasRoom = hasRoom }

        func channelReadComplete(context: ChannelHandlerContext) {
            context.fireChannelReadComplete()
            if !hasRoom() { pause(context) }
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            // Not passed on: NIO would close the listener, and a failed accept is no reason to.
            pause(context)
        }

        private func pause(_ context: ChannelHandlerContext) {
            guard !isPaused else { return }
            isPaused = true
            context.channel.setOption(.autoRead, value: false).whenComplete { _ in }
            let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
            context.eventLoop.scheduleTask(in: Self.pause) {
                let (pacer, context) = bound.value
                pacer.resume(context)
            }
        }

        private func resume(_ context: ChannelHandlerContext) {
            isPaused = false
            guard context.channel.isActive else { return }
            guard hasRoom() else { return pause(context) }
            context.channel.setOption(.autoRead, value: true).whenComplete { _ in }
        }
    }
}
