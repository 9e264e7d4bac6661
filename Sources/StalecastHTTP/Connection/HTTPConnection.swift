package import NIOCore
package import NIOHTTP1
package import StalecastAccess
import StalecastWire

/// The shell around ``ConnectionState``: feeds it with what NIO tells and does what it says. Confined to the channel's
/// event loop.
///
/// `@unchecked Sendable`: a later answer hops to the loop with it.
package final class HTTPConnection: ChannelInboundHandler, LoopMember, @unchecked Sendable {
    package typealias InboundIn = HTTPServerRequestPart
    package typealias OutboundOut = ByteBuffer

    private var state: ConnectionState
    private let loop: ConnectionLoop
    /// Kept until the pipeline is gone: a write of its own may be what ends the connection.
    private var handler: (any RequestHandler)?
    private var isOver = false
    private var context: ChannelHandlerContext?
    /// Context of ``HTTPInputGate``, which is in front of the parser.
    var gate: ChannelHandlerContext?
    private var input = HTTPInput()
    private var exchange = HTTPExchange()
    private let hosts: HostRule
    /// The stream of an HTTP/2 connection that this is; nil for a connection of its own.
    private let stream: HTTP2Exchange?
    /// Said at once, without anything being read; nil for a connection that is served.
    private let refusal: GoogleError?
    /// More waits in the kernel.
    private static let maxWaiting = 64 * 1024

    /// - Parameters:
    ///   - began: when the time for the first head began, in nanoseconds of the monotonic clock; nil is now.
    ///   - stream: in front of it in the pipeline of an HTTP/2 stream's channel; nil for HTTP/1.1.
    init(
        limits: ConnectionLimits, loop: ConnectionLoop, refusal: GoogleError? = nil, began: UInt64? = nil,
        stream: HTTP2Exchange? = nil
    ) {
        self.refusal = refusal
        self.stream = stream
        state = ConnectionState(limits: limits, at: began ?? NIODeadline.now().uptimeNanoseconds)
        hosts = limits.hosts
        self.loop = loop
    }

    package func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        loop.add(self)
    }

    func begin(with handler: any RequestHandler, isActive: Bool) {
        stream?.drained = { [weak self] in self?.drained() }
        stream?.refused = { [weak self] error in self?.refuse(error, .badRequest) }
        self.handler = handler
        if isActive { begin() }
    }

    package func channelActive(context: ChannelHandlerContext) { begin() }
    private func begin() { if let refusal { refuse(refusal, nil) } }

    package func handlerRemoved(context: ChannelHandlerContext) {
        wasClosed()
        self.context = nil
        gate = nil
        handler = nil
    }

    func wasClosed() {
        state.close()
        guard !isOver else { return }
        isOver = true
        exchange.prompt = nil
        loop.remove(self)
        handler?.closed()
    }

    private var now: UInt64 { NIODeadline.now().uptimeNanoseconds }

    // MARK: Input

    /// Takes bytes of the client before the parser does.
    func received(_ bytes: ByteBuffer) {
        notePrompt()
        if input.waiting.readableBytes == 0, serveWhole(bytes) { return }
        input.append(bytes)
        pump()
    }

    /// The parser has seen none of a request that the listener recognises, and sees none of it then.
    private func serveWhole(_ bytes: ByteBuffer) -> Bool {
        guard state.isBetweenRequests, !input.isPumping, !isStream, !input.hasEnded, let handler else { return false }
        return bytes.withUnsafeReadableBytes { handler.serve(whole: $0.bindMemory(to: UInt8.self)) }
    }

    /// The listener recognised a whole request, and answers it.
    package func recognised(keepsAlive: Bool) { state.recognised(keepsAlive: keepsAlive) }

    /// Gives the parser what may be parsed now.
    private func pump() {
        // An answer may lead back here; the running loop goes on with the rest.
        if input.isPumping { return }
        input.isPumping = true
        defer { input.isPumping = false }
        let now = now
        while input.waiting.readableBytes > 0, let gate {
            switch input.waiting.withUnsafeReadableBytes({ state.take($0, at: now) }) {
            case .pass(let count):
                guard let slice = input.waiting.readSlice(length: count) else { return }
                input.parsing = slice
                gate.fireChannelRead(NIOAny(slice))
                // A buffer that is shared is copied when it is written to.
                input.parsing = ByteBuffer()
                if let error = state.parsed() { refuse(error, .badRequest) }
            case .wait: return setReading(input.waiting.readableBytes < Self.maxWaiting)
            case .drop: input.waiting = ByteBuffer()
            case .refuse(let error): refuse(error, .badRequest)
            }
        }
        if input.hasEnded { perform(state.inputClosed()) }
        setReading(!state.isBlocked)
    }

    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let parsed): begin(parsed)
        case .body(let bytes):
            if state.isEnding { return }
            if let error = state.receivedBody(bytes.readableBytes) { return refuse(error, .badRequest) }
            exchange.body.append(contentsOf: bytes.readableBytesView)
        case .end:
            if state.isEnding { return }
            if let error = state.receivedEnd() { return refuse(error, .badRequest) }
            guard let head = exchange.head else { return }
            if let denied = exchange.denied {
                exchange.denied = nil
                return answer(denied.answer)
            }
            let request = Request(head, body: exchange.body)
            exchange.body = []
            handler?.serve(request)
        }
    }

    private func begin(_ parsed: HTTPRequestHead) {
        guard let handler, !state.isEnding else { return }
        do throws(GoogleError) {
            let head = try RequestHead(parsed, hosts: hosts, isStream: isStream)
            exchange.head = head
            let limit: Int
            do throws(GoogleError) { limit = try handler.admit(head) } catch {
                // The body of a refused request is not read, so the connection ends.
                if head.framing != .none { return refuse(error, nil) }
                exchange.denied = error
                limit = 0
            }
            if let error = state.received(head, bodyLimit: limit, at: now) { throw error }
            // A body that has come already needs no invitation.
            if head.expectsContinue, input.waiting.readableBytes == 0 { write(Self.goOn) }
        } catch {
            refuse(error, .badRequest)
        }
    }

    var headBegan: UInt64? { state.headBegan }
    /// An answer that another thread has written counts as ended when it is noted, at most one sweep late.
    var idleSince: UInt64? {
        notePrompt()
        return state.idleSince
    }

    /// Some clients wait for this before they send their body.
    private static let goOn = ByteBuffer(string: "HTTP/1.1 100 Continue\r\n\r\n")

    package func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard let error = error as? HTTPParserError else { return close() }
        switch error {
        case .headerOverflow: refuse(.headTooLarge, .badRequest)
        // The parser knows some methods only; another well-formed one is answered 501.
        case .invalidMethod where state.isHTTP && RequestHead.beginsWell(input.parsing.readableBytesView):
            refuse(.unknownMethod, .badRequest)
        default: refuse(.notHTTP, .badRequest)
        }
    }

    func inputClosed() {
        notePrompt()
        input.hasEnded = true
        if input.waiting.readableBytes == 0 || state.isHolding { perform(state.inputClosed()) }
    }

    private func setReading(_ on: Bool) {
        guard on != input.isReading else { return }
        input.isReading = on
        // A channel that is being closed has no options any more; then nothing is read either.
        try? context?.channel.syncOptions?.setOption(.autoRead, value: on)
    }

    // MARK: Answers

    /// False while what was written waits for the client.
    package var isWritable: Bool { context?.channel.isWritable ?? false }
    package var isHolding: Bool { state.isHolding }
    /// Nothing was received behind the request being served.
    package var isAlone: Bool { input.waiting.readableBytes == 0 && !input.hasEnded }
    package var channel: (any Channel)? { context?.channel }
    /// Certificate that the client showed in the handshake; read once, while a request is served.
    package private(set) lazy var clientCertificate: ClientCertificate? = tls?.clientCertificate
    private lazy var hasOwnSocket = !isStream && tls == nil
    private var tls: TLSHandler? {
        let channel = isStream ? context?.channel.parent : context?.channel
        // Without TLS there is no such handler.
        return try? channel?.pipeline.syncOperations.handler(type: TLSHandler.self)
    }
    /// Whether this is a stream of an HTTP/2 connection: the socket is shared with others.
    package var isStream: Bool { stream != nil }

    package var keepsAlive: Bool { !state.endsWithAnswer }

    package func write(_ bytes: [UInt8]) {
        guard let context else { return }
        write(context.channel.allocator.buffer(bytes: bytes))
    }

    package func write(_ bytes: ByteBuffer) {
        loop.loop.assertInEventLoop()
        context?.writeAndFlush(NIOAny(bytes), promise: nil)
    }

    /// Writes without flushing: more comes at once.
    package func writeFirst(_ bytes: ByteBuffer) { context?.write(NIOAny(bytes), promise: nil) }

    /// Answers the request being served. `cors`: header lines of the listener's.
    package func answer(_ answer: Answer, cors: String = "") {
        let keepAlive = keepsAlive && !answer.closesConnection
        write(
            ResponseHead.response(
                status: answer.status, type: answer.contentType, caching: answer.caching, fields: answer.fields,
                cors: cors, date: loop.dateText, keepAlive: keepAlive, body: answer.body,
                bodyless: exchange.head?.method == .HEAD))
        ended(keepAlive: keepAlive)
    }

    /// Way for another thread to write the answer to the request being served.
    ///
    /// - Returns: nil where there is none: over TLS, on a stream of HTTP/2, where the connection ends with the answer, and
    ///   where the loop has another request to go on with.
    package func promptAnswer() -> PromptAnswer? {
        guard hasOwnSocket, keepsAlive, isAlone, exchange.head?.method != .HEAD, let context else { return nil }
        exchange.prompt = PromptAnswer(context, date: loop.dateText)
        return exchange.prompt
    }

    func notePrompt() {
        if let prompt = exchange.prompt, prompt.isWritten() { ended(keepAlive: keepsAlive) }
    }

    /// Begins an answer of server-sent events, which end with the connection.
    package func beginEvents() {
        hold()
        let framing = chunksEvents ? "Transfer-Encoding: chunked\r\n" : ""
        let fields = "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\(framing)"
        write(ResponseHead.stream(fields: fields, date: loop.dateText))
    }

    /// Begins an answer of so many bytes, which end with the connection; ``writeEvent(_:)`` writes them in pieces.
    package func beginBody(of answer: Answer, length: Int) {
        hold()
        exchange.isSized = true
        write(
            ResponseHead.response(
                status: answer.status, type: answer.contentType, caching: answer.caching, fields: answer.fields,
                date: loop.dateText, keepAlive: false, body: repeatElement(0, count: length), bodyless: true))
    }

    /// - Returns: false when the client has not taken what was written before, and nothing was written.
    package func writeEvent(_ bytes: [UInt8]) -> Bool {
        guard isHolding, isWritable else { return false }
        write(chunksEvents ? ChunkEncoder.chunk(bytes) : bytes)
        return true
    }

    package func endEvents() {
        if chunksEvents, isHolding { write(ChunkEncoder.last) }
        finish()
    }

    private var chunksEvents: Bool { exchange.head?.isHTTP11 ?? false && !isStream && !exchange.isSized }

    /// The answer goes on until ``ended(keepAlive:)``.
    package func hold() { state.hold() }

    /// An answer that was written by other means has ended.
    package func ended(keepAlive: Bool) {
        loop.loop.assertInEventLoop()
        exchange.prompt = nil
        switch state.answered(isLast: !keepAlive, unwritten: unwritten, at: now) {
        case .proceed: pump()
        case .block: setReading(false)
        case .finish: closeWhenWritten()
        case .nothing: break
        }
    }

    /// Ends the connection when everything written so far has left; nothing that comes in is read any more.
    package func finish() {
        loop.loop.assertInEventLoop()
        if state.finish(unwritten, now) == .finish { closeWhenWritten() }
    }

    private func refuse(_ error: GoogleError, _ fault: ConnectionFault?) {
        if state.isEnding { return }
        if let fault { handler?.faulted(fault) }
        write(
            ResponseHead.response(
                status: error.code, type: Answer.jsonType, fields: error.fields, date: loop.dateText, keepAlive: false,
                body: error.body))
        finish()
    }

    private func closeWhenWritten() {
        input.waiting = ByteBuffer()
        setReading(true)
        // The end of an HTTP/2 stream waits behind its body: it need not be held back, and goes out with it.
        if isStream { context?.close(mode: .output, promise: nil) }
        if unwritten == 0 { flushed() }
    }

    private func flushed() {
        switch state.flushed(at: now) {
        case .finish:
            if !isStream { context?.close(mode: .output, promise: nil) }
            if input.hasEnded { close() }
        case .proceed:
            setReading(true)
            pump()
        case .block, .nothing: break
        }
    }

    package func channelWritabilityChanged(context: ChannelHandlerContext) {
        guard context.channel.isWritable else { return }
        if state.isHolding { handler?.becameWritable() } else if unwritten == 0 { flushed() }
    }

    /// The client of an HTTP/2 stream has all that was written. Its channel is writable long before: flow control may
    /// hold back a whole small answer.
    private func drained() { if !state.isHolding { flushed() } }

    /// Bytes that the channel holds for a client that reads slowly.
    private var unwritten: Int {
        if let stream { return stream.unwritten }
        if isWritable { return 0 }
        // Fails only on a channel that is closing, which holds no more bytes for its client.
        return (try? context?.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
    }

    // MARK: Ends

    package func close() {
        loop.loop.assertInEventLoop()
        context?.close(promise: nil)
    }

    /// Closes this channel's copy of the descriptor, which has another owner now.
    package func abandon() {
        state.close()
        close()
    }

    /// Gives away the TLS connection below; ``abandon()`` is to follow. nil where there is none, or it is busy: then
    /// nothing has changed.
    package func detachTLS() -> TLSSession? {
        // Without TLS there is no such handler, which is the answer.
        (try? context?.pipeline.syncOperations.handler(type: TLSHandler.self))?.detach()
    }

    func tick(at now: UInt64) {
        notePrompt()
        perform(state.tick(at: now, unwritten: unwritten))
    }

    func drain(at now: UInt64) {
        notePrompt()
        let wasBlocked = state.isBlocked
        perform(state.drain(at: now))
        if wasBlocked { closeWhenWritten() }
        if state.isHolding { handler?.drain() }
    }

    private func perform(_ end: ConnectionState.End) {
        switch end {
        case .nothing: break
        case .close(let fault):
            if let fault { handler?.faulted(fault) }
            close()
        case .refuse(let error, let fault): refuse(error, fault)
        }
    }
}
