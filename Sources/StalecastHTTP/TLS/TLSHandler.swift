import NIOCore
import NIOTLS
import StalecastAccess

/// A TLS connection in NIO's hands: the handshake of every connection, and all of those that stay here.
/// Confined to the channel's event loop.
///
/// `@unchecked Sendable`: the bootstrap carries one there.
final class TLSHandler: ChannelDuplexHandler, RemovableChannelHandler, @unchecked Sendable {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private enum Phase {
        case shaking
        case open
        /// Closed, or owned by the engine: the channel only ends.
        case over
    }

    private var phase: Phase
    /// nil when another owner has it.
    private var session: TLSSession?
    /// Its callbacks are asked until the handshake is over.
    private var origin: TLSContext?
    private var context: ChannelHandlerContext?
    private var inputEnded = false
    private var saidGoodbye = false

    /// Time for a client to read the last bytes it is sent: as long as nothing else waits for it.
    private static let patience: TimeAmount = .seconds(1)

    init(_ origin: TLSContext) throws(TLSProblem) {
        self.origin = origin
        session = try TLSSession(origin)
        phase = .shaking
    }

    /// - Parameter session: with its handshake over, as ``detach()`` gave it; what it has read goes to HTTP.
    init(returning session: TLSSession) {
        session.useMemory()
        self.session = session
        phase = .open
    }

    deinit { session?.free() }

    var clientCertificate: ClientCertificate? { session?.clientCertificate }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        phase = .over
    }

    /// Gives the connection away, unless something of it is still on its way through this pipeline; then nil, and
    /// nothing has changed. The channel is to be closed next, and says nothing any more.
    func detach() -> TLSSession? {
        context?.eventLoop.assertInEventLoop()
        guard case .open = phase, let session, let context, !inputEnded, !saidGoodbye, session.isClear,
            context.channel.isWritable
        else { return nil }
        phase = .over
        self.session = nil
        return session
    }

    // MARK: Input

    func channelActive(context: ChannelHandlerContext) {
        context.fireChannelActive()
        guard case .open = phase else { return }
        deliver(context, received: 0)
        context.fireChannelReadComplete()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard let session, !inputEnded else { return }
        let records = unwrapInboundIn(data)
        switch phase {
        case .over: return
        case .shaking:
            session.receive(records)
            shakeHands(context, session)
        case .open: session.receive(records)
        }
        if case .open = phase { deliver(context, received: records.readableBytes) }
    }

    private func shakeHands(_ context: ChannelHandlerContext, _ session: TLSSession) {
        switch session.shakeHands() {
        case .underWay: emit(context, session)
        case .failed: fail(context, session)
        case .done:
            phase = .open
            origin = nil
            emit(context, session)
            let completed = TLSUserEvent.handshakeCompleted(negotiatedProtocol: session.application)
            context.fireUserInboundEventTriggered(completed)
        }
    }

    /// The alert goes first.
    private func fail(_ context: ChannelHandlerContext, _ session: TLSSession) {
        emit(context, session)
        phase = .over
        context.fireErrorCaught(TLSProblem("the handshake failed"))
        context.close(promise: nil)
    }

    /// Opens what has come. What is told of it may end in ``detach()``.
    private func deliver(_ context: ChannelHandlerContext, received: Int) {
        guard let session else { return }
        // As long as the records: HTTP keeps it for a while.
        var text = context.channel.allocator.buffer(capacity: received)
        withUnsafeTemporaryAllocation(byteCount: Self.record, alignment: 16) { opened in
            while true {
                let count = session.read(opened.baseAddress, opened.count)
                guard count > 0 else {
                    inputEnded = count < 0
                    return
                }
                text.writeBytes(opened[..<count])
            }
        }
        emit(context, session)
        session.shrink(received: received, sent: 0)
        let isClean = inputEnded && session.hasHeardGoodbye
        if text.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(text)) }
        // The handlers behind may have closed or detached the connection just now.
        guard inputEnded, case .open = phase else { return }
        if isClean { return context.fireUserInboundEventTriggered(ChannelEvent.inputClosed) }
        phase = .over
        context.close(promise: nil)
    }

    /// Plain text of the largest record, in bytes (RFC 8446 §5.1).
    private static let record = 16_384

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard case ChannelEvent.inputClosed = event, let session else {
            return context.fireUserInboundEventTriggered(event)
        }
        switch phase {
        case .shaking: fail(context, session)
        case .open:
            // After `close_notify` HTTP has already closed. Without it the FIN may be an attacker's: treat it as truncation.
            if inputEnded { return }
            phase = .over
            context.close(promise: nil)
        case .over: context.fireUserInboundEventTriggered(event)
        }
    }

    // MARK: Output

    /// Sends what BoringSSL has to say of its own.
    private func emit(_ context: ChannelHandlerContext, _ session: TLSSession) {
        let records = session.takeRecords(context.channel.allocator)
        if records.readableBytes > 0 { context.writeAndFlush(wrapOutboundOut(records), promise: nil) }
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let text = unwrapOutboundIn(data)
        guard case .open = phase, let session, Self.seal(text, session) else {
            promise?.fail(ChannelError.ioOnClosedChannel)
            return
        }
        let records = session.takeRecords(context.channel.allocator)
        session.shrink(received: 0, sent: records.readableBytes)
        context.write(wrapOutboundOut(records), promise: promise)
    }

    /// Memory takes everything.
    private static func seal(_ text: ByteBuffer, _ session: TLSSession) -> Bool {
        text.withUnsafeReadableBytes { bytes in
            guard let base = bytes.baseAddress else { return true }
            return session.send(base, bytes.count) == bytes.count
        }
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        guard case .open = phase, let session else {
            phase = .over
            return context.close(mode: mode, promise: promise)
        }
        // A `close_notify` precedes the end of the output, else the peer sees a truncation (RFC 8446 §6.1).
        if mode != .input, !saidGoodbye {
            saidGoodbye = true
            session.sayGoodbye()
        }
        guard mode == .all else {
            emit(context, session)
            return context.close(mode: mode, promise: promise)
        }
        phase = .over
        closeWhenWritten(session.takeRecords(context.channel.allocator), context, promise)
    }

    private func closeWhenWritten(
        _ records: ByteBuffer, _ context: ChannelHandlerContext, _ promise: EventLoopPromise<Void>?
    ) {
        let loop = context.eventLoop.assumeIsolated()
        let late = loop.scheduleTask(in: Self.patience) { context.close(promise: nil) }
        let written = context.eventLoop.makePromise(of: Void.self)
        written.futureResult.assumeIsolated().whenComplete { _ in
            late.cancel()
            context.close(promise: promise)
        }
        context.writeAndFlush(wrapOutboundOut(records), promise: written)
    }
}
