import Foundation
import StalecastHTTP

/// Target of connections: a listener's address, resolved once and known to answer.
package struct LoadTarget: Sendable {
    /// Scheme, host and port, without a final slash.
    package let url: String
    /// `host:port` for the request's `Host` field.
    package let authority: String
    /// Path before `/v1/…`, for an Edge behind a proxy's path; usually empty.
    package let basePath: String
    /// The socket address as the kernel takes it.
    let socketAddress: [UInt8]
    let family: Int32
    /// nil speaks plain HTTP.
    let tls: TLSClient?
    /// IPv4 loopback: every address of 127/8 is ours to send from.
    var hasManySources: Bool { family == AF_INET && socketAddress[4] == 127 }
    package var isLoopback: Bool {
        if family == AF_INET { return socketAddress[4] == 127 }
        return socketAddress[8..<23].allSatisfy { $0 == 0 } && socketAddress[23] == 1
    }

    /// Longest time for the first connection, which finds out whether the address answers.
    private static let probeMilliseconds: Int32 = 5000

    /// Resolves the address and connects once, with TLS for https.
    ///
    /// - Parameter caFile: PEM file of the authorities trusted for https; nil: the system's.
    /// - Throws: ``LoadProblem`` `usage` for other schemes, `unreachable` when no server answers or its certificate is
    ///   refused.
    package init(url: String, origin: String, caFile: String?) throws(LoadProblem) {
        guard let parts = URLComponents(string: url), let name = parts.host,
            let port = parts.port ?? ["http": 80, "https": 443][parts.scheme ?? ""]
        else { throw LoadProblem(.usage, "\(url) is no address of HTTP", advice: "Name Edge, http://HOST:PORT.") }
        let host = name.trimmingCharacters(in: ["[", "]"])
        let found = Self.resolve(host, port)
        guard let answering = found.first(where: { Self.connected($0.bytes, $0.family) { _ in nil } == nil }) else {
            throw LoadProblem(
                .unreachable, "no server answers at \(url) (from \(origin))",
                advice: "Is the daemon running? Start it with `stalecast serve`.")
        }
        self.url = url
        authority = "\(name):\(port)"
        basePath = parts.percentEncodedPath
        socketAddress = answering.bytes
        family = answering.family
        tls = parts.scheme == "https" ? try Self.client(host, caFile) : nil
        guard let tls, let problem = Self.connected(socketAddress, family, { Self.greet(tls, $0) }) else { return }
        throw LoadProblem(
            .unreachable, "no TLS with \(url) (from \(origin)): \(problem)",
            advice: "--ca-file names the authority of its certificate; `stalecast tls check` tells more.")
    }

    private static func client(_ host: String, _ caFile: String?) throws(LoadProblem) -> TLSClient {
        do { return try TLSClient(host: host, caFile: caFile) } catch {
            throw LoadProblem(.usage, error.description, advice: "--ca-file names a PEM file.")
        }
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

    /// Connects, and closes after `body`; what went wrong, or nil.
    private static func connected(_ address: [UInt8], _ family: Int32, _ body: (Int32) -> String?) -> String? {
        let descriptor = makeSocket(family)
        guard descriptor >= 0 else { return String(cString: strerror(errno)) }
        defer { close(descriptor) }
        if startConnecting(descriptor, to: address) != 0 {
            guard errno == EINPROGRESS, wait(descriptor, POLLOUT), pendingError(descriptor) == 0 else {
                return "no server answers"
            }
        }
        return body(descriptor)
    }

    private static func greet(_ tls: TLSClient, _ descriptor: Int32) -> String? {
        let session: TLSSession
        do { session = try tls.session(over: descriptor) } catch { return error.description }
        defer { session.free() }
        while true {
            switch session.shakeHands() {
            case .done: return nil
            case .failed: return session.problem
            case .underWay: if !wait(descriptor, POLLIN) { return "no handshake within 5 s" }
            }
        }
    }

    private static func wait(_ descriptor: Int32, _ event: Int32) -> Bool {
        var waiting = pollfd(fd: descriptor, events: Int16(event), revents: 0)
        return poll(&waiting, 1, probeMilliseconds) == 1
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

    /// Error number of a failed connection; 0 when it did not fail.
    static func pendingError(_ descriptor: Int32) -> Int32 {
        var (error, size) = (Int32(0), socklen_t(MemoryLayout<Int32>.size))
        return getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno
    }
}
