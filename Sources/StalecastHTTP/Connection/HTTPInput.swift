import NIOCore

/// Bytes on their way to the parser of a connection.
struct HTTPInput {
    /// Received, and not given to the parser.
    var waiting = ByteBuffer()
    /// Bytes that the parser is being given.
    var parsing = ByteBuffer()
    var isPumping = false
    var isReading = true
    /// The client ended its side.
    var hasEnded = false

    mutating func append(_ bytes: ByteBuffer) {
        if waiting.readableBytes == 0 { waiting = bytes } else { waiting.writeImmutableBuffer(bytes) }
    }
}

/// First in the pipeline: the parser sees only what ``HTTPConnection`` gives it.
final class HTTPInputGate: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let connection: HTTPConnection

    init(_ connection: HTTPConnection) { self.connection = connection }

    func handlerAdded(context: ChannelHandlerContext) { connection.gate = context }
    func handlerRemoved(context: ChannelHandlerContext) { connection.gate = nil }
    func channelRead(context: ChannelHandlerContext, data: NIOAny) { connection.received(unwrapInboundIn(data)) }

    func channelInactive(context: ChannelHandlerContext) {
        connection.wasClosed()
        context.fireChannelInactive()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        // The parser must not see it: it takes nothing after it, and bytes that came before may still wait here.
        if case ChannelEvent.inputClosed = event { return connection.inputClosed() }
        context.fireUserInboundEventTriggered(event)
    }
}
