import StalecastWire
import NIOCore
import NIOTLS

/// A connection of a TLS listener until its handshake is over: first in its pipeline, and gone from it when HTTP
/// begins. The deadline of the first request's head covers all of it. Confined to the channel's event loop.
///
/// `@unchecked Sendable`: NIO's pipeline operations ask for it.
final class TLSEntrance: ChannelInboundHandler, RemovableChannelHandler, LoopMember, @unchecked Sendable {
    typealias InboundIn = ByteBuffer

    private enum Phase {
        /// Nothing came yet.
        case arriving
        /// The handshake's first bytes are here, and it has no place yet.
        case waiting
        case shaking
        /// The connection is HTTP's, or closed.
        case over
    }

    private let tls: TLSServer
    private let loop: ConnectionLoop
    private let reception: Reception
    private let limits: ConnectionLimits
    private let began: UInt64
    private var phase = Phase.arriving
    private var received = ByteBuffer()
    private var context: ChannelHandlerContext?

    init(_ tls: TLSServer, _ loop: ConnectionLoop, _ limits: ConnectionLimits, _ reception: Reception) {
        self.tls = tls
        self.loop = loop
        self.limits = limits
        self.reception = reception
        began = NIODeadline.now().uptimeNanoseconds
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        loop.add(self)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        end(nil)
    }

    // MARK: Arriving

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch phase {
        case .shaking: context.fireChannelRead(data)
        case .over: break
        case .arriving, .waiting:
            received.writeImmutableBuffer(unwrapInboundIn(data))
            if case .arriving = phase { knock(context) }
        }
    }

    /// The type of a TLS record that is part of a handshake (RFC 8446 §5.1).
    private static let handshakeRecord: UInt8 = 0x16

    private func knock(_ context: ChannelHandlerContext) {
        guard let first = received.getInteger(at: received.readerIndex, as: UInt8.self) else { return }
        guard first == Self.handshakeRecord else { return refusePlain(context) }
        phase = .waiting
        if loop.handshakes.enter(self, at: NIODeadline.now().uptimeNanoseconds) { return begin() }
        // TCP holds the client back until the handshake has a place.
        setReading(false)
    }

    func begin() {
        loop.loop.assertInEventLoop()
        guard case .waiting = phase, let context else { return }
        phase = .shaking
        do {
            let pipeline = context.pipeline.syncOperations
            try pipeline.addHandlers(
                [tls.handler(), Landing(self)], position: .after(self))
        } catch { return close() }
        setReading(true)
        let bytes = received
        received = ByteBuffer()
        context.fireChannelRead(NIOAny(bytes))
        context.fireChannelReadComplete()
    }

    private func setReading(_ on: Bool) {
        // A channel that is being closed has no options any more; then nothing is read either.
        try? context?.channel.syncOptions?.setOption(.autoRead, value: on)
    }

    /// Answers a client that speaks plain HTTP, or nothing known, to a TLS port: says what to do.
    private func refusePlain(_ context: ChannelHandlerContext) {
        let bytes = received
        let channel = context.channel
        end(.plain, isHTTPNow: true)
        do {
            try HTTPConnection(limits: limits, loop: loop, refusal: .wantsTLS)
                .open(on: channel, limits: limits, reception.connection)
        } catch { return abandon(channel) }
        context.fireChannelRead(NIOAny(bytes))
        context.pipeline.syncOperations.removeHandler(self, promise: nil)
    }

    // MARK: After the handshake

    fileprivate func landed(_ application: String?) {
        guard case .shaking = phase, let context else { return }
        let channel = context.channel
        end(.completed, isHTTPNow: true)
        do {
            if application == "h2" {
                try HTTP2Connection.open(on: channel, loop: loop, limits: limits, reception: reception, began: began)
            } else {
                try HTTPConnection(limits: limits, loop: loop, refusal: reception.refusal, began: began)
                    .open(on: channel, limits: limits, reception.connection)
            }
        } catch { return abandon(channel) }
        context.pipeline.syncOperations.removeHandler(self, promise: nil)
    }

    /// The channel was closed while HTTP moved in.
    private func abandon(_ channel: any Channel) {
        reception.gone()
        channel.close(promise: nil)
    }

    fileprivate func failed() {
        end(.failed)
        close()
    }

    /// Counts it out, once.
    private func end(_ outcome: TLSServer.Outcome?, isHTTPNow: Bool = false) {
        if case .over = phase { return }
        let wasShaking = if case .shaking = phase { true } else { false }
        phase = .over
        // A client that goes away during the handshake has failed it.
        if let outcome = outcome ?? (wasShaking ? .failed : nil) { tls.count(outcome) }
        // Frees the place, and the next client takes it.
        loop.handshakes.leave(self)
        loop.remove(self)
        loop.seatNext()
        if !isHTTPNow { reception.gone() }
    }

    // MARK: LoopMember

    var headBegan: UInt64? { if case .over = phase { nil } else { began } }

    func tick(at now: UInt64) {
        if now >= began + limits.headTimeout.nanoseconds { letGo(.timedOut) }
    }

    func letGo(_ outcome: TLSServer.Outcome) {
        if outcome == .timedOut { reception.fault(.headTimeout) }
        end(outcome)
        close()
    }

    func drain(at now: UInt64) { close() }

    func close() { context?.channel.close(mode: .all, promise: nil) }

    /// Handler after TLS that hears how the handshake ended.
    private final class Landing: ChannelInboundHandler, RemovableChannelHandler {
        typealias InboundIn = ByteBuffer

        private let entrance: TLSEntrance

        init(_ entrance: TLSEntrance) { self.entrance = entrance }

        func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
            guard case TLSUserEvent.handshakeCompleted(let application) = event else {
                return context.fireUserInboundEventTriggered(event)
            }
            entrance.landed(application)
            context.pipeline.syncOperations.removeHandler(context: context, promise: nil)
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { entrance.failed() }
    }
}
