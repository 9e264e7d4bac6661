/// Listener's own part of a connection. One object for each connection, confined to its loop.
package protocol RequestHandler: AnyObject {
    /// A head arrived, before any of its body is read.
    ///
    /// - Returns: the most bytes the body may have.
    /// - Throws: what to answer instead; the connection ends with it when there is a body.
    func admit(_ head: RequestHead) throws(GoogleError) -> Int

    /// Answers a whole request, now or later: with ``HTTPConnection/answer(_:)``, or with bytes of its own and
    /// ``HTTPConnection/ended(keepAlive:)``; or ends the connection.
    func serve(_ request: Request)

    /// Serves a request that `bytes` are the whole of, when the listener recognises it without a parser: it tells the
    /// connection so (``HTTPConnection/recognised(keepsAlive:)``), and answers it as ``serve(_:)`` does.
    ///
    /// - Returns: false when it does not; then nothing has changed.
    func serve(whole bytes: UnsafeBufferPointer<UInt8>) -> Bool

    /// The connection itself refused a request, or let its client go.
    func faulted(_ fault: ConnectionFault)

    /// The client reads again, while ``HTTPConnection/hold()`` is in force.
    func becameWritable()

    /// The daemon is stopping, while ``HTTPConnection/hold()`` is in force.
    func drain()

    /// The connection is gone; called once.
    func closed()
}

extension RequestHandler {
    package func serve(whole bytes: UnsafeBufferPointer<UInt8>) -> Bool { false }
}
