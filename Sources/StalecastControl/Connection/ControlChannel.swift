import HummingbirdCore
import Logging
import NIOCore
import NIOHTTP1

/// Hummingbird's HTTP/1.1 channel with ``HeadBudgetHandler`` in front of the parser and ``RequestGate`` behind it.
struct ControlChannel: ServerChildChannel {
    typealias Value = HTTP1Channel.Value

    private let http: HTTP1Channel
    private let limits: ConnectionLimits
    private let count = ConnectionCount()

    init(limits: ConnectionLimits, responder: @escaping HTTP1Channel.Responder) {
        self.limits = limits
        let decoder = HTTP1Channel.Configuration.DecoderConfiguration(
            maxHeaderFieldSize: limits.maxHeadBytes, maxHeaderListSize: limits.maxHeadBytes, maxHeaderFieldCount: 200)
        http = HTTP1Channel(
            responder: responder,
            configuration: .init(idleTimeout: TimeAmount(limits.idleTimeout), httpDecoderConfiguration: decoder))
    }

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        let isOverCap = count.add(channel) > limits.maxConnections
        return channel.eventLoop.makeCompletedFuture {
            let budget = HeadBudgetHandler(limit: limits.maxHeadBytes, deadline: TimeAmount(limits.headTimeout))
            try channel.pipeline.syncOperations.addHandler(budget)
        }.flatMap {
            http.setup(channel: channel, logger: logger)
        }.flatMapThrowing { value in
            try addGate(to: channel, refusal: isOverCap ? .tooManyConnections : nil)
            return value
        }
    }

    func handle(value: Value, logger: Logger) async { await http.handle(value: value, logger: logger) }

    private func addGate(to channel: any Channel, refusal: GoogleError?) throws {
        let pipeline = channel.pipeline.syncOperations
        let budget = try pipeline.handler(type: HeadBudgetHandler.self)
        let parser = try pipeline.handler(type: ByteToMessageHandler<HTTPRequestDecoder>.self)
        let timing = RequestGate.Timing(
            writeStall: TimeAmount(limits.writeStallLimit), drain: TimeAmount(limits.drainTimeout))
        let gate = RequestGate(budget: budget, timing: timing, refusal: refusal)
        try pipeline.addHandler(gate, position: .after(parser))
    }
}
