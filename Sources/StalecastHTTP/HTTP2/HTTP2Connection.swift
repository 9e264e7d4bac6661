import StalecastWire
import NIOCore
import NIOHTTP2

/// An HTTP/2 connection: its streams, and what a client may not do to it. Last in its pipeline. Confined to the
/// channel's event loop.
///
/// `@unchecked Sendable`: streams are begun through it on that loop.
final class HTTP2Connection: ChannelInboundHandler, LoopMember, @unchecked Sendable {
    typealias InboundIn = HTTP2Frame
    typealias OutboundOut = HTTP2Frame

    /// Streams that one connection may have open at once. A browser puts all tabs of a site on one connection and queues
    /// requests above this limit without an error, so that many tabs that listen would block every fetch. RFC 9113
    /// section 5.1.2 advises at least 100.
    private static let maxStreams = 128
    /// Control frames and faults of one kind within 30 s, after which the connection ends.
    private static let maxRate = 20
    /// Streams that the client may reset within 30 s. Pages abort polls and fetches at every navigation, and all tabs
    /// share the connection. The attack of rapid resets sends thousands a second.
    private static let maxResets = 200
    /// Bytes of a head that nio-http2 decodes. Above this nio-http2 ends the connection, and with it the streams of a
    /// proxy's other clients. A head between `maxHeadBytes` and this ends as 431 on its own stream.
    private static let maxDecodedHeadBytes = 64 * 1024

    private let loop: ConnectionLoop
    private let limits: ConnectionLimits
    private let reception: Reception
    private let budget: BudgetKeeper
    private var context: ChannelHandlerContext?
    private var open = 0
    /// End of the last stream, or the time when the client should have begun its first.
    private var quietSince: UInt64
    private var hasServed = false
    private var isDraining = false
    private var isOver = false

    var headBegan: UInt64? { hasServed || open > 0 ? nil : quietSince }
    var idleSince: UInt64? { hasServed && open == 0 ? quietSince : nil }

    private init(_ loop: ConnectionLoop, _ limits: ConnectionLimits, _ reception: Reception, began: UInt64) {
        self.loop = loop
        self.limits = limits
        self.reception = reception
        quietSince = began
        budget = BudgetKeeper()
    }

    /// Makes `channel` an HTTP/2 connection; on its event loop.
    ///
    /// - Parameter began: when the time for the first head began, in nanoseconds of the monotonic clock.
    static func open(
        on channel: any Channel, loop: ConnectionLoop, limits: ConnectionLimits, reception: Reception, began: UInt64
    ) throws {
        let connection = HTTP2Connection(loop, limits, reception, began: began)
        let handler = NIOHTTP2Handler(
            mode: .server, eventLoop: channel.eventLoop, connectionConfiguration: connection.configuration,
            streamConfiguration: streamConfiguration
        ) { stream in
            stream.eventLoop.makeCompletedFuture { try connection.begin(stream) }
        }
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandlers([connection.budget, handler, connection])
    }

    private var configuration: NIOHTTP2Handler.ConnectionConfiguration {
        var configuration = NIOHTTP2Handler.ConnectionConfiguration()
        configuration.initialSettings = [
            HTTP2Setting(parameter: .maxConcurrentStreams, value: Self.maxStreams),
            HTTP2Setting(
                parameter: .maxHeaderListSize, value: max(Self.maxDecodedHeadBytes, limits.maxHeadBytes)),
        ]
        configuration.controlFrameRateLimit.maximumCount = Self.maxRate
        configuration.maximumConnectionGlitches = Self.maxRate
        configuration.maximumBufferedControlFrames = 256
        return configuration
    }

    private static var streamConfiguration: NIOHTTP2Handler.StreamConfiguration {
        var configuration = NIOHTTP2Handler.StreamConfiguration()
        // What the client has not taken is a full slot: newer messages wait there, newest wins.
        configuration.outboundBufferSizeHighWatermark = 2
        configuration.outboundBufferSizeLowWatermark = 1
        configuration.streamResetFrameRateLimit.maximumCount = maxResets
        configuration.streamErrorRateLimit.maximumCount = maxRate
        return configuration
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        loop.add(self)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        guard !isOver else { return }
        isOver = true
        loop.remove(self)
        reception.gone()
    }

    // MARK: Streams

    private func begin(_ stream: any Channel) throws {
        loop.loop.assertInEventLoop()
        let id = try stream.syncOptions?.getOption(HTTP2StreamChannelOptions.streamID)
        open += 1
        let budget = budget
        let exchange = HTTP2Exchange { budget.credit(FrameBudget.perDataFrame) }
        // First of all: a stream that cannot be opened below is counted out as well.
        stream.closeFuture.assumeIsolated().whenComplete { [self] _ in ended(exchange, id) }
        let own = reception.stream(stream)
        do {
            try stream.pipeline.syncOperations.addHandler(exchange)
            try HTTPConnection(limits: limits, loop: loop, refusal: own.refusal, stream: exchange)
                .open(on: stream, limits: limits, own.connection)
        } catch {
            own.gone()
            throw error
        }
    }

    private func ended(_ exchange: HTTP2Exchange, _ id: HTTP2StreamID?) {
        loop.loop.assertInEventLoop()
        open -= 1
        hasServed = true
        // A client that resets its own requests pays for them.
        budget.ended(id.map { UInt32(Int($0)) } ?? 0, isAnswered: exchange.isAnswered)
        guard open == 0 else { return }
        quietSince = NIODeadline.now().uptimeNanoseconds
        if isDraining { sayGoodbye() }
    }

    // MARK: The connection

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {}

    /// Half a connection is of no use to HTTP/2.
    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed = event { return context.close(promise: nil) }
        context.fireUserInboundEventTriggered(event)
    }

    /// Closes after a violation: nio-http2 sends GOAWAY and then swallows, or even keeps, all that comes.
    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if error is any NIOHTTP2Error { reception.fault(.badRequest) }
        context.close(promise: nil)
    }

    func tick(at now: UInt64) {
        guard open == 0 else { return }
        let limit = hasServed ? limits.idleTimeout : limits.headTimeout
        guard now >= quietSince + limit.nanoseconds else { return }
        reception.fault(hasServed ? .idle : .headTimeout)
        sayGoodbye()
    }

    /// The goodbye is said last: clients built on Python's `h2` read nothing after it, and an end of a stream says when
    /// to come back.
    func drain(at now: UInt64) {
        isDraining = true
        if open == 0 { sayGoodbye() }
    }

    func close() { context?.close(promise: nil) }

    private func sayGoodbye() {
        let goodbye = HTTP2Frame.FramePayload.goAway(lastStreamID: .maxID, errorCode: .noError, opaqueData: nil)
        context?.writeAndFlush(wrapOutboundOut(HTTP2Frame(streamID: .rootStream, payload: goodbye)), promise: nil)
        close()
    }
}

/// Handler in front of the decoder that lets in what the budget covers.
private final class BudgetKeeper: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private var budget = FrameBudget(at: NIODeadline.now().uptimeNanoseconds)
    private var isOver = false

    func credit(_ bytes: Int) { budget.credit(bytes) }
    func ended(_ stream: UInt32, isAnswered: Bool) { budget.ended(stream, isAnswered: isAnswered) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if isOver { return }
        let bytes = unwrapInboundIn(data)
        if budget.take(bytes.readableBytesView, at: NIODeadline.now().uptimeNanoseconds) {
            return context.fireChannelRead(data)
        }
        isOver = true
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: Self.calmDown)), promise: nil)
        context.close(promise: nil)
    }

    /// GOAWAY with ENHANCE_YOUR_CALM (RFC 9113 §6.8, §7), as bytes: the decoder behind is not to be asked any more.
    private static let calmDown: [UInt8] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0x7F, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0x0B]
}
