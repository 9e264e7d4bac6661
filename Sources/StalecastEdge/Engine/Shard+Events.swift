package import StalecastAccess
package import StalecastHTTP
package import StalecastHub
package import StalecastWire

extension Shard {
    /// Request of another thread to a shard.
    package enum Event: Sendable {
        case hub(Hub.Event)
        case settings(EdgeSettings)
        /// Principals may have lost something.
        case accessChanged
        /// The token in a slot's request was looked at; nil is good.
        case verified(Int32, generation: UInt32, Denial?, _ address: UInt64)
        /// A connection whose request the Front has read: the shard owns the descriptor from here on.
        case adopt(Adoption)
        /// An end that a scope's messages are written to as well: see ``Canaries``.
        case canary(Scope, CanaryEnd)
        /// Answer a question about the shard on its thread; nil once it has stopped.
        case ask(@Sendable (Shard?) -> Void)
        /// Stop accepting and end everything within so many milliseconds, evenly spread.
        case drain(milliseconds: Int, done: @Sendable () -> Void)
        case stop
    }

    /// A connection handed from the Front to a shard.
    package struct Adoption: Sendable {
        let fd: Int32
        let address: UInt64
        /// nil when the next request is to be read.
        let request: StreamRequest?
        /// The connection's TLS, over memory; nil for a plain one.
        let tls: TLSSession?
        /// The trusted peer, which may speak for others in the next request; nil for one that speaks for itself.
        let proxy: IPAddress?

        package init(
            fd: Int32, address: UInt64, request: StreamRequest?, tls: TLSSession? = nil, proxy: IPAddress? = nil
        ) {
            (self.fd, self.address, self.request, self.tls, self.proxy) = (fd, address, request, tls, proxy)
        }
    }

    /// A connection that the engine gives to the Front, with its input: read already, or still in its socket or its session.
    package struct Handover: Sendable {
        package let fd: Int32
        /// Input that was read already, before what is in the socket.
        package let input: [UInt8]
        let address: UInt64
        let isRefused: Bool
        /// TLS session that it had in the engine before.
        let tls: TLSSession?
        /// Address of the proxy, as above.
        let proxy: IPAddress?
    }
}
