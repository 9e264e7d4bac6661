package import NIOCore
package import StalecastWire

/// A connection of a listener behind proxies until its PROXY header is read: first in its pipeline, and gone from it
/// when TLS or HTTP begins. It has the time of a request's head. Confined to the channel's event loop.
///
/// `@unchecked Sendable`: NIO's pipeline operations ask for it.
final class ProxyEntrance: ChannelInboundHandler, RemovableChannelHandler, LoopMember, @unchecked Sendable {
    typealias InboundIn = ByteBuffer

    private let loop: ConnectionLoop
    private let began: UInt64
    private let deadline: UInt64
    private let ended: (ProxyArrival) throws -> Void
    private var isOver = false
    private var received = ByteBuffer()
    private var context: ChannelHandlerContext?

    fileprivate init(
        _ loop: ConnectionLoop, _ limits: ConnectionLimits, _ ended: @escaping (ProxyArrival) throws -> Void
    ) {
        self.loop = loop
        self.ended = ended
        began = NIODeadline.now().uptimeNanoseconds
        deadline = began + limits.headTimeout.nanoseconds
    }

    var headBegan: UInt64? { isOver ? nil : began }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        loop.add(self)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        end(.gone)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if isOver { return context.fireChannelRead(data) }
        received.writeImmutableBuffer(unwrapInboundIn(data))
        switch received.withUnsafeReadableBytes(ProxyHeader.read) {
        case .incomplete: break
        case .invalid: fail(.invalid)
        case .header(let length, let source):
            received.moveReaderIndex(forwardBy: length)
            guard end(.client(source)) else { return context.close(promise: nil) }
            if received.readableBytes > 0 {
                context.fireChannelRead(NIOAny(received))
                context.fireChannelReadComplete()
            }
            context.pipeline.syncOperations.removeHandler(self, promise: nil)
        }
    }

    /// - Returns: false when no loop takes the connection.
    @discardableResult
    private func end(_ arrival: ProxyArrival) -> Bool {
        guard !isOver else { return true }
        isOver = true
        loop.remove(self)
        // What is thrown is that the channel was closed meanwhile.
        return (try? ended(arrival)) != nil
    }

    private func fail(_ arrival: ProxyArrival) {
        end(arrival)
        close()
    }

    func tick(at now: UInt64) { if now >= deadline { fail(.timedOut) } }
    func drain(at now: UInt64) { close() }
    func close() { context?.close(promise: nil) }
}

package enum ProxyArrival: Sendable, Equatable {
    /// The client for which the proxy speaks; nil: the proxy itself.
    case client(IPAddress?)
    case invalid, timedOut, gone
}

extension ConnectionLoop {
    /// Reads a PROXY header from `channel` before anything else; on its event loop, before it is active.
    ///
    /// - Parameter ended: called once. What it adds to the pipeline gets what follows the header.
    package func awaitProxyHeader(
        on channel: any Channel, limits: ConnectionLimits, _ ended: @escaping (ProxyArrival) throws -> Void
    ) throws {
        try channel.pipeline.syncOperations.addHandler(ProxyEntrance(self, limits, ended))
    }
}
