import NIOCore

/// Stops accepting on the Front's own listener when connections beyond the cap are enough to be refused, or when
/// descriptors run out, and looks again ten times a second: a full daemon must not spin.
final class AcceptPacer: ChannelInboundHandler {
    typealias InboundIn = any Channel

    private let hasRoom: () -> Bool
    private static let pause: TimeAmount = .milliseconds(100)
    private var isPaused = false

    init(hasRoom: @escaping () -> Bool) { self.hasRoom = hasRoom }

    func channelReadComplete(context: ChannelHandlerContext) {
        context.fireChannelReadComplete()
        if !hasRoom() { pause(context) }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // Not passed on: NIO would close the listener, and a failed accept is no reason to.
        pause(context)
    }

    private func pause(_ context: ChannelHandlerContext) {
        guard !isPaused else { return }
        isPaused = true
        context.channel.setOption(.autoRead, value: false).whenComplete { _ in }
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        context.eventLoop.scheduleTask(in: Self.pause) {
            let (pacer, context) = bound.value
            pacer.resume(context)
        }
    }

    private func resume(_ context: ChannelHandlerContext) {
        isPaused = false
        guard context.channel.isActive else { return }
        guard hasRoom() else { return pause(context) }
        context.channel.setOption(.autoRead, value: true).whenComplete { _ in }
    }
}
