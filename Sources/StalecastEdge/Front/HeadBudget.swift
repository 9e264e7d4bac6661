import NIOCore

/// A request head grew past the limit.
struct HeadTooLarge: Error {}

/// Sees the bytes before the decoder does: counts those of a head, tells when a request's first byte came, and
/// whether anything came behind a request.
final class HeadBudget: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private let maxHeadBytes: Int
    private var headBytes: Int? = 0
    /// The bytes of the request being received, or nil when they are too many to be looked at.
    private var raw: [UInt8]? = []
    /// Called at the first byte of each request.
    var requestBegan: () -> Void = {}

    init(maxHeadBytes: Int) { self.maxHeadBytes = maxHeadBytes }

    /// The head was decoded: what follows is body, limited elsewhere.
    func headEnded() { headBytes = nil }

    /// The request was read whole: the next byte begins another head.
    func requestEnded() {
        headBytes = 0
        raw = []
    }

    /// Whether the bytes received so far end exactly with a request of that body: then nothing lies in the decoder
    /// that a new owner of the descriptor would miss. Asked before ``requestEnded()``.
    func endsWithRequest(bodyBytes: Int) -> Bool {
        guard let raw else { return false }
        let end: [UInt8] = [0x0D, 0x0A, 0x0D, 0x0A]
        guard let head = raw.firstRange(of: end) else { return false }
        return head.upperBound + bodyBytes == raw.count
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let count = unwrapInboundIn(data).readableBytes
        if headBytes == 0 { requestBegan() }
        if let before = headBytes { headBytes = before + count }
        raw?.append(contentsOf: unwrapInboundIn(data).readableBytesView)
        if let raw, raw.count > 2 * maxHeadBytes { self.raw = nil }
        context.fireChannelRead(data)
        if let headBytes, headBytes > maxHeadBytes {
            self.headBytes = nil
            context.fireErrorCaught(HeadTooLarge())
        }
    }
}
