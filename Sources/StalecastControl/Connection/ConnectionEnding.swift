import NIOCore

/// Ends a connection without cutting an answer off: NIO fails what is not written yet when a channel is closed, and
/// the kernel resets a connection that is closed with unread input, which may take the answer with it. So a close waits
/// for written answers, and after the last answer the output is closed first and input is thrown away for a moment.
/// Confined to the event loop.
final class ConnectionEnding {
    private enum Phase {
        case open
        /// The last answer is on its way out.
        case flushing(linger: TimeAmount)
        /// The output is closed; waiting for the client's close.
        case lingering
        case closed
    }

    private var phase = Phase.open
    /// Answers written and not yet taken by the kernel.
    private var inFlight = 0
    private var timers: [Scheduled<Void>] = []
    /// Closes that others asked for and that wait.
    private var waiting: [(CloseMode, EventLoopPromise<Void>?)] = []

    /// An answer is being written; `written` completes when the kernel has it.
    func track(_ written: EventLoopFuture<Void>, stall: TimeAmount, _ context: ChannelHandlerContext) {
        inFlight += 1
        let timer = context.eventLoop.assumeIsolated().scheduleTask(in: stall) { self.close(context) }
        written.assumeIsolated().whenComplete { _ in
            timer.cancel()
            self.inFlight -= 1
            self.flushed(context)
        }
    }

    /// The last answer was written.
    func begin(linger: TimeAmount, _ context: ChannelHandlerContext) {
        guard case .open = phase else { return }
        phase = .flushing(linger: linger)
        flushed(context)
    }

    /// The client closed its side.
    func inputClosed(_ context: ChannelHandlerContext) {
        if case .lingering = phase { close(context) }
    }

    /// Somebody behind wants the channel closed.
    func closeRequested(_ mode: CloseMode, _ promise: EventLoopPromise<Void>?, _ context: ChannelHandlerContext) {
        switch phase {
        case .open where inFlight == 0: context.close(mode: mode, promise: promise)
        case .open, .flushing, .lingering: waiting.append((mode, promise))
        case .closed: context.close(mode: mode, promise: promise)
        }
    }

    /// The channel is gone.
    func cancelTimers() {
        phase = .closed
        timers.forEach { $0.cancel() }
        timers = []
        let promises = waiting.compactMap(\.1)
        waiting = []
        promises.forEach { $0.succeed(()) }
    }

    private func flushed(_ context: ChannelHandlerContext) {
        guard inFlight == 0 else { return }
        switch phase {
        case .flushing(let linger): startLingering(linger, context)
        case .open:
            let closes = waiting
            waiting = []
            for (mode, promise) in closes { context.close(mode: mode, promise: promise) }
        case .lingering, .closed: break
        }
    }

    private func startLingering(_ linger: TimeAmount, _ context: ChannelHandlerContext) {
        phase = .lingering
        timers.append(context.eventLoop.assumeIsolated().scheduleTask(in: linger) { self.close(context) })
        context.close(mode: .output, promise: nil)
        context.read()
    }

    private func close(_ context: ChannelHandlerContext) {
        guard case .closed = phase else {
            phase = .closed
            context.close(mode: .all, promise: nil)
            return
        }
    }
}
