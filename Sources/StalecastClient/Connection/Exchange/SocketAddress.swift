import Foundation

/// An address to connect to, of either family.
struct SocketAddress: Sendable, Hashable {
    /// `AF_INET` or `AF_INET6`.
    let family: Int32
    /// The bytes of a `sockaddr_in` or `sockaddr_in6`.
    let bytes: [UInt8]

    /// Why a name has no address; `description` is for the developer.
    struct Unknown: Error, CustomStringConvertible { let description: String }

    #if canImport(Glibc)
        private static let streamType = Int32(SOCK_STREAM.rawValue)
    #else
        private static let streamType = SOCK_STREAM
    #endif

    /// The addresses of a host in the system's order of preference. A name is looked up, which may take seconds and
    /// blocks the calling thread.
    static func lookUp(_ host: String, port: Int, isNumeric: Bool) throws(Unknown) -> [SocketAddress] {
        var hints = addrinfo()
        hints.ai_family = AF_UNSPEC
        hints.ai_socktype = streamType
        hints.ai_flags = isNumeric ? AI_NUMERICHOST | AI_NUMERICSERV : AI_NUMERICSERV
        var list: UnsafeMutablePointer<addrinfo>?
        let status = getaddrinfo(host, String(port), &hints, &list)
        guard status == 0 else {
            throw Unknown(description: "no address of \(host): \(String(cString: gai_strerror(status)))")
        }
        defer { freeaddrinfo(list) }
        var addresses: [SocketAddress] = []
        var next = list
        while let entry = next?.pointee {
            let bytes = Array(UnsafeRawBufferPointer(start: entry.ai_addr, count: Int(entry.ai_addrlen)))
            addresses.append(SocketAddress(family: entry.ai_family, bytes: bytes))
            next = entry.ai_next
        }
        return addresses
    }

    /// Begins to connect without waiting for the end.
    ///
    /// - Returns: the socket; nil with `errno` set when that cannot even begin.
    func connecting() -> Int32? {
        let descriptor = socket(family, Self.streamType, 0)
        guard descriptor >= 0 else { return nil }
        _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        var on: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
        setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, socklen_t(MemoryLayout<Int32>.size))
        #if canImport(Darwin)
            setsockopt(descriptor, SOL_SOCKET, SO_NOSIGPIPE, &on, socklen_t(MemoryLayout<Int32>.size))
        #endif
        let status = bytes.withUnsafeBytes { raw in
            connect(descriptor, raw.assumingMemoryBound(to: sockaddr.self).baseAddress, socklen_t(raw.count))
        }
        guard status == 0 || errno == EINPROGRESS else {
            let reason = errno
            close(descriptor)
            errno = reason
            return nil
        }
        return descriptor
    }

    /// What became of a connect: 0 or an `errno`.
    static func pendingError(_ descriptor: Int32) -> Int32 {
        var error: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        guard getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length) == 0 else { return errno }
        return error
    }
}
