import CLinux
import Foundation

/// Where connections go to: a listener's address, resolved once and known to answer.
package struct LoadTarget: Sendable {
    /// Scheme, host and port, without a final slash.
    package let url: String
    /// `host:port` for the request's `Host` field.
    package let authority: String
    /// What stands before `/v1/…`, for an Edge behind a proxy's path; usually empty.
    package let basePath: String
    /// The socket address as the kernel takes it.
    let socketAddress: [UInt8]
    let family: Int32
    /// IPv4 loopback: every address of 127/8 is ours to send from.
    var hasManySources: Bool { family == AF_INET && socketAddress[4] == 127 }
    /// On this machine.
    package var isLoopback: Bool {
        if family == AF_INET { return socketAddress[4] == 127 }
        return socketAddress[8..<23].allSatisfy { $0 == 0 } && socketAddress[23] == 1
    }

    /// How long the first connection, which finds out whether anybody answers, may take.
    private static let probeMilliseconds: Int32 = 5000

    /// Resolves the address and connects once.
    /// - Throws: ``LoadProblem`` `usage` for https, `unreachable` when nobody answers.
    package init(url: String, origin: String) throws(LoadProblem) {
        guard let parts = URLComponents(string: url), parts.scheme == "http", let name = parts.host else {
            throw LoadProblem(
                .usage, "\(url): the load speaks plain HTTP only",
                advice: "Name Edge itself, http://HOST:PORT; what terminates TLS before it is not measured.")
        }
        let host = name.trimmingCharacters(in: ["[", "]"])
        let port = parts.port ?? 80
        let found = Self.resolve(host, port)
        guard let answering = found.first(where: { Self.answers($0.bytes, $0.family) }) else {
            throw LoadProblem(
                .unreachable, "nobody answers at \(url) (from \(origin))",
                advice: "Is the daemon running? Start it with `stalecast serve`.")
        }
        self.url = url
        authority = "\(name):\(port)"
        basePath = parts.percentEncodedPath
        socketAddress = answering.bytes
        family = answering.family
    }

    private static func resolve(_ host: String, _ port: Int) -> [(bytes: [UInt8], family: Int32)] {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, String(port), &hints, &list) == 0 else { return [] }
        defer { freeaddrinfo(list) }
        return sequence(first: list) { $0?.pointee.ai_next }.prefix { $0 != nil }.compactMap { entry in
            guard let entry = entry?.pointee, let address = entry.ai_addr else { return nil }
            return (Array(Bytes(start: address, count: Int(entry.ai_addrlen))), entry.ai_family)
        }
    }

    private static func answers(_ address: [UInt8], _ family: Int32) -> Bool {
        let descriptor = makeSocket(family)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        if startConnecting(descriptor, to: address) == 0 { return true }
        guard errno == EINPROGRESS else { return false }
        var waiting = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        return poll(&waiting, 1, probeMilliseconds) == 1 && pendingError(descriptor) == 0
    }
}

extension LoadTarget {
    /// A TCP socket, non-blocking, close-on-exec; -1 with `errno` set when there is none to be had.
    static func makeSocket(_ family: Int32) -> Int32 {
        let flags = Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        return socket(family, Int32(SOCK_STREAM.rawValue) | flags, 0)
    }

    /// Begins to connect; 0, or -1 with `errno` `EINPROGRESS` as a rule.
    static func startConnecting(_ descriptor: Int32, to address: [UInt8]) -> Int32 {
        address.withUnsafeBytes { bytes in
            connect(descriptor, bytes.assumingMemoryBound(to: sockaddr.self).baseAddress!, UInt32(bytes.count))
        }
    }

    /// Sends from 127.0.0.0 + `number` with whatever port is free towards the target, so that every source address has
    /// all of the ports.
    static func bindToLoopback(_ descriptor: Int32, number: UInt32) -> Int32 {
        var one: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_IP), IP_BIND_ADDRESS_NO_PORT, &one, socklen_t(MemoryLayout<Int32>.size))
        var source = sockaddr_in()
        source.sin_family = sa_family_t(AF_INET)
        source.sin_addr.s_addr = (UInt32(127) << 24 | number).bigEndian
        return withUnsafeBytes(of: &source) { bytes in
            bind(descriptor, bytes.assumingMemoryBound(to: sockaddr.self).baseAddress!, UInt32(bytes.count))
        }
    }

    /// Why a connection failed; 0 when it did not.
    static func pendingError(_ descriptor: Int32) -> Int32 {
        var (error, size) = (Int32(0), socklen_t(MemoryLayout<Int32>.size))
        return getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno
    }
}
