import NIOCore

/// A request head grew past the limit.
struct HeadTooLarge: Error {}

/// Counts the bytes of a request head before the decoder collects them, and tells when a request's first byte came.
final class HeadBudget: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private let maxHeadBytes: Int
    private var headBytes: Int? = 0
    /// Called at the first byte of each request.
    var requestBegan: () -> Void = {}

    init(maxHeadBytes: Int) { self.maxHeadBytes = maxHeadBytes }

    /// The head was decoded: what follows is body, limited elsewhere.
    func headEnded() { headBytes = nil }

    /// The request was read whole: the next byte begins another head.
    func requestEnded() { headBytes = 0 }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let count = unwrapInboundIn(data).readableBytes
        if headBytes == 0 { requestBegan() }
        if let before = headBytes { headBytes = before + count }
        context.fireChannelRead(data)
        if let headBytes, headBytes > maxHeadBytes {
            self.headBytes = nil
            context.fireErrorCaught(HeadTooLarge())
        }
    }
}
