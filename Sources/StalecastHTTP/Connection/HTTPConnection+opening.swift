import NIOCore
import NIOHTTP1

extension HTTPConnection {
    /// Puts this connection into the pipeline of `channel`. Call it on the channel's event loop.
    func open(
        on channel: any Channel, limits: ConnectionLimits, _ makeHandler: (HTTPConnection) -> any RequestHandler
    ) throws {
        var parsing = NIOHTTPDecoderLimitConfiguration()
        parsing.maxHeaderFieldSize = limits.maxHeadBytes
        parsing.maxHeaderListSize = limits.maxHeadBytes
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandler(HTTPInputGate(self))
        try pipeline.addHandler(
            ByteToMessageHandler(HTTPRequestDecoder(leftOverBytesStrategy: .dropBytes, limitConfiguration: parsing)))
        try pipeline.addHandler(self)
        // The handler is made last: it must hear of the end only of a connection that began.
        begin(with: makeHandler(self), isActive: channel.isActive)
    }
}
