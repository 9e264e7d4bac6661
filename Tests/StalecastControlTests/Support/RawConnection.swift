import NIOCore
import NIOPosix

/// A TCP connection that sends the bytes a test gives it.
enum RawConnection {
    /// Sends `bytes`, ignores that the server may stop listening meanwhile, and collects until the server closes.
    static func exchange(port: Int, _ bytes: [UInt8]) async throws -> [UInt8] {
        try await open(port: port) { inbound, outbound in
            // The server may have answered and closed before it read everything: what it said still counts.
            try? await outbound.write(ByteBuffer(bytes: bytes))
            return await collect(inbound)
        }
    }

    typealias Inbound = NIOAsyncChannelInboundStream<ByteBuffer>
    typealias Outbound = NIOAsyncChannelOutboundWriter<ByteBuffer>

    /// - Parameter receiveBuffer: the kernel's, in bytes, so that little is under way; nil is its default.
    static func open<Value: Sendable>(
        port: Int, receiveBuffer: Int? = nil, _ body: (Inbound, Outbound) async throws -> Value
    ) async throws -> Value {
        var bootstrap = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(ChannelOptions.allowRemoteHalfClosure, value: true)
        if let receiveBuffer {
            bootstrap = bootstrap.channelOption(ChannelOptions.socketOption(.so_rcvbuf), value: receiveBuffer)
        }
        let channel =
            try await bootstrap
            .connect(host: "127.0.0.1", port: port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try NIOAsyncChannel<ByteBuffer, ByteBuffer>(
                        wrappingChannelSynchronously: channel,
                        configuration: .init(isOutboundHalfClosureEnabled: true))
                }
            }
        return try await channel.executeThenClose { try await body($0, $1) }
    }

    /// Everything up to the end; a reset is an end too.
    static func collect(_ inbound: Inbound) async -> [UInt8] {
        var bytes: [UInt8] = []
        do { for try await piece in inbound { bytes += piece.readableBytesView } } catch {}
        return bytes
    }
}
