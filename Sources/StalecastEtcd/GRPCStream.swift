import NIOCore
import NIOHPACK
import NIOHTTP2

/// One gRPC call on a stream of its own: writes the request when the stream opens, takes messages apart, and tells once
/// how it ended. On the connection's event loop.
final class GRPCStream: ChannelInboundHandler {
    typealias InboundIn = HTTP2Frame.FramePayload
    typealias OutboundOut = HTTP2Frame.FramePayload

    /// Longest message: a page has a hundred entries of 64 KiB and more. No member of etcd sends a longer one.
    private static let maxMessage = 64 << 20

    private let head: HPACKHeaders
    private let message: [UInt8]
    private let isUnary: Bool
    private let onMessage: @Sendable ([UInt8]) -> Void
    private let onEnd: @Sendable (EtcdFailure?) -> Void
    private var buffer = ByteBuffer()
    private var hasEnded = false

    /// - Parameter isUnary: the request ends with its message; else the stream is kept open for answers.
    init(
        _ head: HPACKHeaders, _ message: [UInt8], isUnary: Bool, onMessage: @escaping @Sendable ([UInt8]) -> Void,
        onEnd: @escaping @Sendable (EtcdFailure?) -> Void
    ) {
        (self.head, self.message, self.isUnary, self.onMessage, self.onEnd) = (head, message, isUnary, onMessage, onEnd)
    }

    func channelActive(context: ChannelHandlerContext) {
        var body = context.channel.allocator.buffer(capacity: message.count + 5)
        body.writeInteger(UInt8(0))
        body.writeInteger(UInt32(clamping: message.count))
        body.writeBytes(message)
        context.write(wrapOutboundOut(.headers(.init(headers: head))), promise: nil)
        context.writeAndFlush(
            wrapOutboundOut(.data(.init(data: .byteBuffer(body), endStream: isUnary))), promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .headers(let headers): take(headers.headers, isLast: headers.endStream, context)
        case .data(let data):
            if case .byteBuffer(var bytes) = data.data { buffer.writeBuffer(&bytes) }
            takeMessages(context)
            if data.endStream { end(.noAnswer("the stream ended without a status"), context) }
        default: break
        }
    }

    func channelInactive(context: ChannelHandlerContext) { end(.noAnswer("the connection ended"), context) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { end(.noAnswer("\(error)"), context) }

    private func take(_ headers: HPACKHeaders, isLast: Bool, _ context: ChannelHandlerContext) {
        if let status = headers.first(name: ":status"), status != "200" {
            return end(.noAnswer("HTTP status \(status); is this etcd's client port?"), context)
        }
        guard let status = headers.first(name: "grpc-status") else {
            if isLast { end(.noAnswer("the stream ended without a status"), context) }
            return
        }
        let message = headers.first(name: "grpc-message") ?? ""
        end(status == "0" ? nil : .status(Int(status) ?? 2, message), context)
    }

    private func takeMessages(_ context: ChannelHandlerContext) {
        // Five bytes stand before each message: a flag for compression, which no call here asks for, and the length.
        while !hasEnded, let flag = buffer.getInteger(at: buffer.readerIndex, as: UInt8.self),
            let count = buffer.getInteger(at: buffer.readerIndex + 1, as: UInt32.self)
        {
            guard flag == 0, count <= Self.maxMessage else {
                return end(.malformed("a message is packed or too long"), context)
            }
            guard buffer.readableBytes >= 5 + Int(count) else { return }
            buffer.moveReaderIndex(forwardBy: 5)
            onMessage(buffer.readBytes(length: Int(count)) ?? [])
        }
        buffer.discardReadBytes()
    }

    private func end(_ failure: EtcdFailure?, _ context: ChannelHandlerContext) {
        guard !hasEnded else { return }
        hasEnded = true
        onEnd(failure)
        context.close(promise: nil)
    }
}
