import NIOCore
import NIOHTTP1

/// The request's body will never be complete; ends the reading of it.
struct BrokenRequest: Error {}

/// Between the HTTP parser and Hummingbird: refuses what is not proper HTTP with an envelope instead of a bare 400,
/// makes sure that a body which never ends is an error and not a short body, and ends connections so that the last
/// answer arrives: half-closes, drains for ``Timing/linger``, then closes. Confined to the event loop.
final class RequestGate: ChannelDuplexHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    /// How long the gate waits for the other side.
    struct Timing: Sendable {
        /// For the client to read an answer to its end.
        var writeStall: TimeAmount
        /// For the client to close after the last answer.
        var linger = TimeAmount.seconds(1)
        /// For the rest of a body once the daemon is stopping.
        var drain: TimeAmount
    }

    private var state = GateState()
    private let budget: HeadBudgetHandler
    private let timing: Timing
    /// Sent to the client at once, without reading anything; nil for a connection within the cap.
    private let refusal: GoogleError?
    private var ending = ConnectionEnding()

    init(budget: HeadBudgetHandler, timing: Timing, refusal: GoogleError? = nil) {
        self.budget = budget
        self.timing = timing
        self.refusal = refusal
    }

    func channelActive(context: ChannelHandlerContext) {
        context.fireChannelActive()
        if let refusal { perform(state.failed(refusal), context) }
    }

    func channelInactive(context: ChannelHandlerContext) {
        ending.cancelTimers()
        if state.isReceiving { context.fireErrorCaught(BrokenRequest()) }
        context.fireChannelInactive()
    }

    // MARK: Requests

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            budget.headComplete()
            if let refusal = HeadRules.refusal(of: head) { return refuse(refusal, context) }
            pass(data, state.receivedHead(isLast: !head.isKeepAlive), context)
        case .body: pass(data, state.receivedBody(), context)
        case .end:
            budget.requestComplete()
            pass(data, state.receivedEnd(), context)
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        context.fireChannelReadComplete()
        if state.isFinished { context.read() }
    }

    private func pass(_ data: NIOAny, _ action: GateState.Action, _ context: ChannelHandlerContext) {
        if action == .passOn { context.fireChannelRead(data) }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch error {
        case HeadError.tooLarge, HTTPParserError.headerOverflow: refuse(.headTooLarge, context)
        case HeadError.tooLate: refuse(.headTimeout, context)
        case is HTTPParserError: refuse(.malformed("The request is not valid HTTP/1.1."), context)
        default: context.fireErrorCaught(error)
        }
    }

    private func refuse(_ error: GoogleError, _ context: ChannelHandlerContext) {
        let wasReceiving = state.isReceiving
        perform(state.failed(error), context)
        if wasReceiving { context.fireErrorCaught(BrokenRequest()) }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case ChannelEvent.inputClosed where state.isFinished: ending.inputClosed(context)
        case ChannelEvent.inputClosed where state.isReceiving:
            refuse(.malformed("The connection was closed before the request's body was complete."), context)
        case is ChannelShouldQuiesceEvent where state.isReceiving:
            context.eventLoop.assumeIsolated().scheduleTask(in: timing.drain) {
                if self.state.isReceiving { self.refuse(.shuttingDown, context) }
            }
        default: break
        }
        context.fireUserInboundEventTriggered(event)
    }

    // MARK: Answers

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        switch unwrapOutboundIn(data) {
        case .head(let head) where (100..<200).contains(head.status.code) && !state.isFinished:
            context.write(data, promise: promise)
        case .head(var head):
            guard let closes = state.answering(closes: head.headers.says("close")) else { return drop(promise) }
            if closes { head.headers.replaceOrAdd(name: "Connection", value: "close") }
            context.write(wrapOutboundOut(.head(head)), promise: promise)
        case .body:
            if state.isFinished { drop(promise) } else { context.write(data, promise: promise) }
        case .end: writeEnd(data, promise, context)
        }
    }

    private func writeEnd(_ data: NIOAny, _ promise: EventLoopPromise<Void>?, _ context: ChannelHandlerContext) {
        let action = state.answered()
        if action == .drop { return drop(promise) }
        let written = promise ?? context.eventLoop.makePromise()
        ending.track(written.futureResult, stall: timing.writeStall, context)
        context.writeAndFlush(data, promise: written)
        perform(action, context)
    }

    private func drop(_ promise: EventLoopPromise<Void>?) { promise?.fail(ChannelError.outputClosed) }

    private func perform(_ action: GateState.Action, _ context: ChannelHandlerContext) {
        switch action {
        case .nothing, .passOn, .drop: break
        case .refuse(let error):
            write(error.answer, context)
            ending.begin(linger: timing.linger, context)
        case .finish: ending.begin(linger: timing.linger, context)
        }
    }

    private func write(_ answer: Answer, _ context: ChannelHandlerContext) {
        var head = HTTPResponseHead(version: .http1_1, status: .init(statusCode: answer.status))
        for field in answer.headers { head.headers.add(name: field.name, value: field.value) }
        head.headers.add(name: "Content-Length", value: String(answer.body.count))
        head.headers.add(name: "Connection", value: "close")
        let written = context.eventLoop.makePromise(of: Void.self)
        ending.track(written.futureResult, stall: timing.writeStall, context)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: answer.body)))), promise: nil)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: written)
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        ending.closeRequested(mode, promise, context)
    }
}

extension HTTPHeaders {
    fileprivate func says(_ word: String) -> Bool {
        self[canonicalForm: "connection"].contains { $0.lowercased() == word }
    }
}
