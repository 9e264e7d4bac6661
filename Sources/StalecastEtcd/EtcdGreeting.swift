import Glibc
import NIOCore
import NIOHTTP2
import NIOPosix
import NIOSSL

/// Handler on a connection's event loop that tells when the member has greeted with its HTTP/2 settings, which it does
/// when TLS and protocol are agreed, and pings it from then on. A ping without an answer closes the connection.
final class EtcdGreeting: ChannelInboundHandler {
    typealias InboundIn = HTTP2Frame
    typealias OutboundOut = HTTP2Frame

    private let greeting: EventLoopPromise<Void>
    private let timeout: Duration
    private let keepAlive: Duration?
    private var timer: Scheduled<Void>?
    private var hasGreeted = false

    /// Reason why there is no connection.
    enum Problem: Error { case silent, closed }

    init(_ greeting: EventLoopPromise<Void>, timeout: Duration, keepAlive: Duration?) {
        (self.greeting, self.timeout, self.keepAlive) = (greeting, timeout, keepAlive)
    }

    func handlerAdded(context: ChannelHandlerContext) {
        timer = context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(timeout)) {
            self.fail(Problem.silent, context)
        }
    }

    func handlerRemoved(context: ChannelHandlerContext) { fail(Problem.closed, context) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data).payload {
        case .settings(.settings) where !hasGreeted:
            hasGreeted = true
            greeting.succeed()
            pingLater(context)
        case .ping(_, ack: true): pingLater(context)
        default: break
        }
    }

    func channelInactive(context: ChannelHandlerContext) { fail(Problem.closed, context) }

    /// Later ones concern streams, which hear of them, or end the connection by themselves.
    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if !hasGreeted { fail(error, context) }
    }

    private func fail(_ error: any Error, _ context: ChannelHandlerContext) {
        timer?.cancel()
        if !hasGreeted { greeting.fail(error) }
        context.close(promise: nil)
    }

    private func pingLater(_ context: ChannelHandlerContext) {
        timer?.cancel()
        guard let keepAlive else { return }
        timer = context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(keepAlive)) { self.ping(context) }
    }

    private func ping(_ context: ChannelHandlerContext) {
        let frame = HTTP2Frame(streamID: .rootStream, payload: .ping(HTTP2PingData(withInteger: 0), ack: false))
        context.writeAndFlush(wrapOutboundOut(frame), promise: nil)
        timer = context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(timeout * 2)) {
            context.close(promise: nil)
        }
    }
}

extension EtcdGreeting {
    /// Advice for an operator about the error of a connection that did not come about.
    static func words(_ error: any Error, isTLS: Bool) -> String {
        if let error = error as? NIOConnectionError {
            return error.connectionErrors.first.map { "\($0.error)" } ?? "has no address: its name is not known here"
        }
        let text = "\(error)"
        if text.contains("CERTIFICATE_VERIFY_FAILED") {
            return "has a certificate that none of our authorities signed, or for another name: look at the CA file"
        }
        if ["WRONG_VERSION_NUMBER", "HTTP_REQUEST", "EOF during handshake"].contains(where: text.contains) {
            return "does not speak TLS: its scheme should be http"
        }
        // Its answer in plain text may be lost to the reset that follows.
        if isTLS, let error = error as? IOError, error.errnoCode == ECONNRESET {
            return "ended the connection at once: if it does not speak TLS, its scheme should be http (\(text))"
        }
        if text.contains("ALERT") {
            return "does not take our certificate: configure one that its authority signed, with its key (\(text))"
        }
        guard let problem = error as? Problem else { return "is no etcd: \(text)" }
        switch problem {
        case .silent: return "accepts connections and says nothing: it stands still, or this is not etcd's client port"
        case .closed where isTLS: return "ended the connection: does it want a certificate of ours?"
        case .closed: return "ended the connection: if it speaks TLS, its scheme should be https"
        }
    }
}
