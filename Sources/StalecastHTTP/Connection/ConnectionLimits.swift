/// Limits of one connection; the same rules on every listener.
package struct ConnectionLimits: Sendable, Equatable {
    /// Bytes of a request line and its headers; as many again for the chunk extensions and trailers of a body.
    /// Default 16 KiB.
    package var maxHeadBytes = 16 * 1024
    /// Time for a head to arrive, counted from the connection's begin or from the head's first byte. Default 10 s.
    package var headTimeout: Duration = .seconds(10)
    /// Time for a body to arrive, and a second more for each KiB of it. Default 60 s.
    package var bodyTimeout: Duration = .seconds(60)
    /// Time for a kept-alive connection's next request. Default 60 s.
    package var idleTimeout: Duration = .seconds(60)
    /// Time for a client to read some of what was written. Default 30 s.
    package var writeStallLimit: Duration = .seconds(30)
    /// Time for a client to close after the last answer, whose input is thrown away meanwhile: a connection closed with
    /// unread input is reset, which may take the answer with it. Default 1 s.
    package var linger: Duration = .seconds(1)
    /// Time for the rest of a body once the daemon is stopping; then the request is refused. Default 5 s.
    package var drainTimeout: Duration = .seconds(5)
    /// The names under which the listener may be asked for. Default any.
    package var hosts = HostRule.any

    package init() {}
}
