import NIOCore

/// What went wrong with a head before the parser could tell; travels to ``RequestGate`` as a channel error.
enum HeadError: Error {
    case tooLarge
    case tooLate
}

/// First in the pipeline: passes on no more bytes than a head may have, and closes the door on heads that take too
/// long. ``RequestGate``, behind the parser, tells it where heads and requests end. Confined to the event loop.
final class HeadBudgetHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private var budget: HeadBudget
    private let deadline: TimeAmount
    private var timer: Scheduled<Void>?
    private var isRefusing = false

    init(limit: Int, deadline: TimeAmount) {
        budget = HeadBudget(limit: limit)
        self.deadline = deadline
    }

    func channelActive(context: ChannelHandlerContext) {
        startTimer(context)
        context.fireChannelActive()
    }

    func channelInactive(context: ChannelHandlerContext) {
        timer?.cancel()
        context.fireChannelInactive()
    }

    func handlerRemoved(context: ChannelHandlerContext) { timer?.cancel() }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = unwrapInboundIn(data)
        while !isRefusing, bytes.readableBytes > 0 {
            guard let count = budget.take(bytes.readableBytes), let slice = bytes.readSlice(length: count) else {
                return refuse(.tooLarge, context)
            }
            context.fireChannelRead(wrapInboundOut(slice))
        }
        if budget.isInHead, timer == nil { startTimer(context) }
    }

    /// The parser delivered a head.
    func headComplete() {
        budget.headComplete()
        timer?.cancel()
        timer = nil
    }

    /// The parser delivered a request's end.
    func requestComplete() { budget.requestComplete() }

    private func startTimer(_ context: ChannelHandlerContext) {
        timer?.cancel()
        timer = context.eventLoop.assumeIsolated().scheduleTask(in: deadline) { self.timeIsUp(context) }
    }

    private func timeIsUp(_ context: ChannelHandlerContext) {
        if budget.isIdle { context.close(promise: nil) } else { refuse(.tooLate, context) }
    }

    private func refuse(_ error: HeadError, _ context: ChannelHandlerContext) {
        isRefusing = true
        context.fireErrorCaught(error)
    }
}
