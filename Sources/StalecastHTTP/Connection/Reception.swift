package import NIOCore

/// Receiver of a listener's connections, whatever protocol they turn out to speak. Called on the connection's event
/// loop.
package struct Reception {
    /// Refusal that is sent before anything is read; nil for a connection that is served.
    let refusal: GoogleError?
    /// Makes the handler of an HTTP/1.1 connection; the handler is told of the connection's end.
    let connection: (HTTPConnection) -> any RequestHandler
    /// Makes the reception for one stream of an HTTP/2 connection, which has a channel of its own.
    let stream: (any Channel) -> Reception
    /// The connection was closed from this side before it had a handler.
    let fault: (ConnectionFault) -> Void
    /// The connection ended before it had a handler; called once.
    let gone: () -> Void

    package init(
        refusal: GoogleError? = nil, connection: @escaping (HTTPConnection) -> any RequestHandler,
        stream: @escaping (any Channel) -> Reception = { _ in preconditionFailure("a stream has no streams") },
        fault: @escaping (ConnectionFault) -> Void = { _ in }, gone: @escaping () -> Void = {}
    ) {
        self.refusal = refusal
        self.connection = connection
        self.stream = stream
        self.fault = fault
        self.gone = gone
    }
}

extension ConnectionLoop {
    /// Makes `channel` a connection of a listener; on its event loop, before it is active.
    ///
    /// - Parameters:
    ///   - tls: nil for a plain listener.
    ///   - returning: of a connection whose handshake is over, and which ``HTTPConnection/detachTLS()`` gave away before.
    package func receive(
        _ channel: any Channel, limits: ConnectionLimits, tls: TLSServer?, returning: ReturningTLS? = nil,
        _ reception: Reception
    ) throws {
        let pipeline = channel.pipeline.syncOperations
        if let returning {
            try pipeline.addHandler(returning.handler)
        } else if let tls {
            return try pipeline.addHandler(TLSEntrance(tls, self, limits, reception))
        }
        try HTTPConnection(limits: limits, loop: self, refusal: reception.refusal)
            .open(on: channel, limits: limits, reception.connection)
    }
}

/// A TLS connection that the engine gives back to the general HTTP server. It is freed once, also after a failure.
package struct ReturningTLS: Sendable {
    let handler: TLSHandler

    package init(_ session: TLSSession) { handler = TLSHandler(returning: session) }
}
