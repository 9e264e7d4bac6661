import NIOCore
import NIOHPACK
import NIOHTTP2
import NIOPosix
import NIOSSL
import StalecastWire
import Synchronization

/// One connection to one member.
final class EtcdConnection: Sendable {
    private let channel: any Channel
    private let streams: NIOHTTP2Handler.StreamMultiplexer
    private let endpoint: EtcdEndpoint
    private let isClosed = Atomic(false)

    private init(_ channel: any Channel, _ streams: NIOHTTP2Handler.StreamMultiplexer, _ endpoint: EtcdEndpoint) {
        (self.channel, self.streams, self.endpoint) = (channel, streams, endpoint)
    }

    /// Opens a connection and waits for the member's greeting: a stopped member, one that wants TLS, and one that
    /// dislikes our certificate accept it, too.
    ///
    /// - Parameters:
    ///   - tls: for an endpoint of `https`.
    ///   - keepAlive: between two pings; nil: none, for a connection on which no call stays open.
    /// - Throws: ``EtcdFailure/notSent(_:)``, ``EtcdFailure/cancelled(isSent:)``. Only the look-up of a name goes on, up
    ///   to the timeout.
    static func open(
        _ endpoint: EtcdEndpoint, tls: NIOSSLContext?, timeout: Duration, keepAlive: Duration?,
        on group: any EventLoopGroup
    ) async throws(EtcdFailure) -> EtcdConnection {
        let attempt = Attempt(endpoint: endpoint, tls: tls, timeout: timeout, keepAlive: keepAlive)
        do {
            return try await withTaskCancellationHandler {
                try await attempt.open(on: group)
            } onCancel: {
                attempt.cancel()
            }
        } catch {
            // Cancellation closes the channels, which shows as any error of a connection: it is asked for first.
            if attempt.isCancelled { throw .cancelled(isSent: false) }
            throw .notSent("\(endpoint) \(EtcdGreeting.words(error, isTLS: tls != nil))")
        }
    }

    /// An attempt to connect, which has a channel for each address that is tried.
    private final class Attempt: Sendable {
        private let endpoint: EtcdEndpoint
        private let tls: NIOSSLContext?
        private let timeout: Duration
        private let keepAlive: Duration?
        private let channels = Mutex<[any Channel]?>([])

        init(endpoint: EtcdEndpoint, tls: NIOSSLContext?, timeout: Duration, keepAlive: Duration?) {
            (self.endpoint, self.tls, self.timeout, self.keepAlive) = (endpoint, tls, timeout, keepAlive)
        }

        var isCancelled: Bool { channels.withLock { $0 == nil } }

        func cancel() { for channel in channels.withLock({ $0.take() }) ?? [] { channel.close(promise: nil) } }

        private func add(_ channel: any Channel) throws {
            try channels.withLock { channels in
                if channels == nil { throw CancellationError() }
                channels?.append(channel)
            }
        }

        /// Leaves the channels to the caller: what is cancelled from now on does not close them.
        ///
        /// - Throws: when it was cancelled, and they are being closed.
        private func finish() throws {
            try channels.withLock { channels in
                if channels == nil { throw CancellationError() }
                channels = []
            }
        }

        func open(on group: any EventLoopGroup) async throws -> EtcdConnection {
            let (channel, streams, greeting) = try await ClientBootstrap(group: group)
                .connectTimeout(TimeAmount(timeout))
                .connect(host: endpoint.host, port: endpoint.port) { [self] channel in
                    channel.eventLoop.makeCompletedFuture {
                        try add(channel)
                        let streams = try EtcdConnection.configure(channel, endpoint, tls)
                        let greeting = channel.eventLoop.makePromise(of: Void.self)
                        try channel.pipeline.syncOperations.addHandler(
                            EtcdGreeting(greeting, timeout: timeout, keepAlive: keepAlive))
                        return (channel, streams, greeting.futureResult)
                    }
                }
            try await greeting.get()
            try finish()
            return EtcdConnection(channel, streams, endpoint)
        }
    }

    /// Go's servers send a PING for each answer, and resets of streams that we have ended are ordinary: both are more
    /// than nio-http2 takes from a stranger.
    private static func configure(
        _ channel: any Channel, _ endpoint: EtcdEndpoint, _ tls: NIOSSLContext?
    ) throws -> NIOHTTP2Handler.StreamMultiplexer {
        if let tls {
            // SNI takes no addresses (RFC 6066, section 3), and NIO's handler throws for one.
            let name = endpoint.isAddress ? nil : endpoint.host
            try channel.pipeline.syncOperations.addHandler(NIOSSLClientHandler(context: tls, serverHostname: name))
        }
        var connection = NIOHTTP2Handler.ConnectionConfiguration()
        connection.initialSettings = [
            HTTP2Setting(parameter: .enablePush, value: 0), HTTP2Setting(parameter: .initialWindowSize, value: 8 << 20),
            HTTP2Setting(parameter: .maxHeaderListSize, value: 64 << 10),
        ]
        connection.targetWindowSize = 8 << 20
        connection.controlFrameRateLimit.maximumCount = 1_000_000
        var stream = NIOHTTP2Handler.StreamConfiguration()
        stream.targetWindowSize = 8 << 20
        stream.streamResetFrameRateLimit.maximumCount = 1_000_000
        // Streams that the member opens are pushes, which the settings forbid.
        return try channel.pipeline.syncOperations.configureHTTP2Pipeline(
            mode: .client, connectionConfiguration: connection, streamConfiguration: stream
        ) { $0.close() }
    }

    var isOpen: Bool { channel.isActive }

    /// Whether it was this side that closed it.
    var wasClosed: Bool { isClosed.load(ordering: .relaxed) }

    func close() {
        isClosed.store(true, ordering: .relaxed)
        channel.close(promise: nil)
    }

    /// One request, one answer. A caller that is cancelled waits no longer, and its stream is reset.
    ///
    /// - Parameter timeout: also told to the member, which stops working then.
    func call(
        _ path: String, _ message: [UInt8], token: String?, timeout: Duration
    ) async throws(EtcdFailure) -> [UInt8] {
        if Task.isCancelled { throw .cancelled(isSent: false) }
        let answer = channel.eventLoop.makePromise(of: [UInt8].self)
        let received = Received()
        let opened = open(head(path, token, timeout: timeout), message, isUnary: true) { bytes in
            received.message.withLock { $0 = bytes }
        } onEnd: { failure in
            if let failure { return answer.fail(failure) }
            answer.succeed(received.message.withLock { $0 })
        }
        opened.whenFailure { answer.fail(EtcdFailure.notSent("\($0)")) }
        let timer = channel.eventLoop.scheduleTask(in: TimeAmount(timeout)) {
            answer.fail(EtcdFailure.noAnswer("not within \(timeout)"))
        }
        // A stream whose answer came has ended by itself. Any other is reset, so that the member stops working for it.
        answer.futureResult.whenComplete { _ in
            timer.cancel()
            opened.whenSuccess { $0.close(promise: nil) }
        }
        return try await answer.wait(isSent: true)
    }

    /// One request, answers until it ends, or the connection is closed.
    func stream(
        _ path: String, _ message: [UInt8], token: String?, onMessage: @escaping @Sendable ([UInt8]) -> Void,
        onEnd: @escaping @Sendable (EtcdFailure?) -> Void
    ) {
        open(head(path, token), message, isUnary: false, onMessage: onMessage, onEnd: onEnd)
            .whenFailure { onEnd(.notSent("\($0)")) }
    }

    private func head(_ path: String, _ token: String?, timeout: Duration? = nil) -> HPACKHeaders {
        var head: HPACKHeaders = [
            ":method": "POST", ":scheme": endpoint.isTLS ? "https" : "http", ":path": path,
            ":authority": HostPort.text(endpoint.host, endpoint.port), "content-type": "application/grpc",
            "te": "trailers",
            // A member without a leader answers at once instead of waiting for one.
            "hasleader": "true",
        ]
        if let timeout { head.add(name: "grpc-timeout", value: "\(Int64(timeout / .milliseconds(1)))m") }
        if let token { head.add(name: "token", value: token) }
        return head
    }

    private func open(
        _ head: HPACKHeaders, _ message: [UInt8], isUnary: Bool, onMessage: @escaping @Sendable ([UInt8]) -> Void,
        onEnd: @escaping @Sendable (EtcdFailure?) -> Void
    ) -> EventLoopFuture<any Channel> {
        let opened = channel.eventLoop.makePromise(of: (any Channel).self)
        streams.createStreamChannel(promise: opened) { stream in
            stream.eventLoop.makeCompletedFuture {
                try stream.pipeline.syncOperations.addHandler(
                    GRPCStream(head, message, isUnary: isUnary, onMessage: onMessage, onEnd: onEnd))
            }
        }
        return opened.futureResult
    }
}

extension EventLoopPromise where Value: Sendable {
    /// Waits for the value. The promise fails when the caller is cancelled.
    ///
    /// - Parameter isSent: something may be done although the caller is cancelled.
    func wait(isSent: Bool) async throws(EtcdFailure) -> Value {
        do {
            return try await withTaskCancellationHandler {
                try await futureResult.get()
            } onCancel: {
                // A promise keeps its first result (NIO ignores a second one), so an answer may come at the same time.
                fail(EtcdFailure.cancelled(isSent: isSent))
            }
        } catch let failure as EtcdFailure {
            throw failure
        } catch {
            throw .noAnswer("\(error)")
        }
    }
}

/// The one message of an answer; empty when there was none.
private final class Received: Sendable {
    let message = Mutex<[UInt8]>([])
}
