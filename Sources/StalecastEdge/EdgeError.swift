import Glibc

/// Reason why Edge cannot start.
package enum EdgeError: Error, CustomStringConvertible {
    case cannotListen(address: String, errno: Int32)
    case noDescriptor(Int32)
    case badAddress(String)
    /// systemd opened a socket elsewhere.
    case otherSocket(String)

    package var description: String {
        switch self {
        case .cannotListen(let address, EADDRINUSE):
            "edge cannot listen on \(address): another process uses that port; stop it or choose another with --edge"
        case .cannotListen(let address, EADDRNOTAVAIL):
            "edge cannot listen on \(address): no interface of this machine has that address; choose another with --edge"
        case .cannotListen(let address, let error):
            "edge cannot listen on \(address): \(String(cString: strerror(error)))"
        case .noDescriptor(let error): "edge cannot start: \(String(cString: strerror(error)))"
        case .otherSocket(let address):
            "the socket that systemd opened for Edge does not listen on \(address): make ListenStream= in stalecast.socket "
                + "and edge.listen the same"
        case .badAddress(let text): "\(text) is not an address edge can listen on: give an IP address, not a name"
        }
    }
}
