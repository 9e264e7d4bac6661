package import NIOCore
import NIOHTTP1

extension HTTPConnection {
    /// Makes `channel` an HTTP/1.1 connection; on its event loop.
    ///
    /// - Parameter began: when the time for the first head began, in nanoseconds of the monotonic clock; nil is now.
    @discardableResult
    package static func open(
        on channel: any Channel, limits: ConnectionLimits, loop: ConnectionLoop, refusal: GoogleError? = nil,
        began: UInt64? = nil, handler: (HTTPConnection) -> any RequestHandler
    ) throws -> HTTPConnection {
        try open(
            on: channel, limits: limits, loop: loop, refusal: refusal, began: began, stream: nil, handler: handler)
    }

    /// - Parameter stream: in front of it in the pipeline of an HTTP/2 stream's channel; nil for HTTP/1.1.
    @discardableResult
    static func open(
        on channel: any Channel, limits: ConnectionLimits, loop: ConnectionLoop, refusal: GoogleError?,
        began: UInt64?, stream: HTTP2Exchange?, handler: (HTTPConnection) -> any RequestHandler
    ) throws -> HTTPConnection {
        let connection = HTTPConnection(
            limits: limits, loop: loop, refusal: refusal, began: began ?? NIODeadline.now().uptimeNanoseconds,
            stream: stream)
        var parsing = NIOHTTPDecoderLimitConfiguration()
        parsing.maxHeaderFieldSize = limits.maxHeadBytes
        parsing.maxHeaderListSize = limits.maxHeadBytes
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandler(HTTPInputGate(connection))
        try pipeline.addHandler(
            ByteToMessageHandler(HTTPRequestDecoder(leftOverBytesStrategy: .dropBytes, limitConfiguration: parsing)))
        try pipeline.addHandler(connection)
        // The handler is made last: it must hear of the end only of a connection that began.
        connection.begin(with: handler(connection), isActive: channel.isActive)
        return connection
    }
}
