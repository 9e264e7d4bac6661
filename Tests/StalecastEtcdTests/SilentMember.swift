import NIOCore
import NIOHPACK
import NIOHTTP2
import NIOPosix
import StalecastEtcd
import Synchronization

/// A member that takes connections and calls, and answers none but those that it is told to.
final class SilentMember: Sendable {
    struct Figures: Sendable {
        /// Connections and streams so far, and those that are open.
        var connections = 0
        var openConnections = 0
        var openStreams = 0
        /// Paths of the calls so far.
        var calls: [String] = []
    }

    private let state = Mutex(Figures())
    private let channel: any Channel
    let endpoint: EtcdEndpoint
    /// Signs callers in from now on, with this token, those that wait as well.
    private let tokens = Mutex<(token: String?, waiting: [@Sendable (String) -> Void])>((nil, []))

    /// - Parameter greets: false: it takes the connection and says nothing.
    init(greets: Bool = true) async throws {
        let made = Mutex<SilentMember?>(nil)
        channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    guard let member = made.withLock({ $0 }) else { return }
                    try member.take(channel, greets: greets)
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        endpoint = EtcdEndpoint("http://127.0.0.1:\(channel.localAddress?.port ?? 0)")!
        made.withLock { $0 = self }
    }

    var figures: Figures { state.withLock { $0 } }

    func end() { channel.close(promise: nil) }

    func signIn(with token: String) {
        let waiting = tokens.withLock { tokens in
            tokens.token = token
            defer { tokens.waiting = [] }
            return tokens.waiting
        }
        for answer in waiting { answer(token) }
    }

    private func take(_ channel: any Channel, greets: Bool) throws {
        state.withLock {
            $0.connections += 1
            $0.openConnections += 1
        }
        channel.closeFuture.whenComplete { [self] _ in state.withLock { $0.openConnections -= 1 } }
        guard greets else { return }
        _ = try channel.pipeline.syncOperations.configureHTTP2Pipeline(
            mode: .server, connectionConfiguration: .init(), streamConfiguration: .init()
        ) { [self] stream in
            state.withLock { $0.openStreams += 1 }
            stream.closeFuture.whenComplete { [self] _ in state.withLock { $0.openStreams -= 1 } }
            return stream.eventLoop.makeCompletedFuture {
                try stream.pipeline.syncOperations.addHandler(Call(self))
            }
        }
    }

    fileprivate func called(_ path: String, _ stream: any Channel) {
        state.withLock { $0.calls.append(path) }
        guard path.hasSuffix("/Authenticate") else { return }
        let answer: @Sendable (String) -> Void = { Self.answer($0, on: stream) }
        let token = tokens.withLock { tokens in
            if tokens.token == nil { tokens.waiting.append(answer) }
            return tokens.token
        }
        if let token { answer(token) }
    }

    private static func answer(_ token: String, on stream: any Channel) {
        var message = ProtobufWriter()
        message.bytes(2, token.utf8)
        var body = ByteBuffer()
        body.writeInteger(UInt8(0))
        body.writeInteger(UInt32(message.bytes.count))
        body.writeBytes(message.bytes)
        let head: HPACKHeaders = [":status": "200", "content-type": "application/grpc"]
        stream.write(HTTP2Frame.FramePayload.headers(.init(headers: head)), promise: nil)
        stream.write(HTTP2Frame.FramePayload.data(.init(data: .byteBuffer(body))), promise: nil)
        stream.writeAndFlush(
            HTTP2Frame.FramePayload.headers(.init(headers: ["grpc-status": "0"], endStream: true)), promise: nil)
    }
}

private final class Call: ChannelInboundHandler {
    typealias InboundIn = HTTP2Frame.FramePayload

    private let member: SilentMember

    init(_ member: SilentMember) { self.member = member }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .headers(let headers) = unwrapInboundIn(data),
            let path = headers.headers.first(name: ":path")
        else { return }
        member.called(path, context.channel)
    }

    /// The client's reset.
    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
