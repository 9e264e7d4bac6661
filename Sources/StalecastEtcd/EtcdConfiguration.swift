import StalecastWire

/// Address where a member listens for clients.
package struct EtcdEndpoint: Sendable, Hashable, CustomStringConvertible {
    package let isTLS: Bool
    /// Host without brackets.
    package let host: String
    package let port: Int

    /// `http://HOST:PORT`, `https://HOST:PORT`, or `HOST:PORT`, which is without TLS; nil for anything else. Port 2379
    /// where none is given.
    package init?(_ text: String) {
        var rest = text[...]
        isTLS = rest.hasPrefix("https://")
        for scheme in ["https://", "http://"] where rest.hasPrefix(scheme) { rest = rest.dropFirst(scheme.count) }
        if rest.hasSuffix("/") { rest = rest.dropLast() }
        if rest.hasPrefix("["), let end = rest.firstIndex(of: "]") {
            host = String(rest[rest.index(after: rest.startIndex)..<end])
            // Brackets are for IPv6.
            guard host.contains(":") else { return nil }
            rest = rest[rest.index(after: end)...]
        } else {
            host = String(rest.prefix { $0 != ":" })
            rest = rest.dropFirst(host.count)
        }
        guard !host.isEmpty, !host.contains("/"), rest.isEmpty || rest.hasPrefix(":") else { return nil }
        let digits = rest.dropFirst()
        guard digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        guard let port = rest.isEmpty ? 2379 : UInt16(digits), port > 0 else { return nil }
        self.port = Int(port)
    }

    /// TLS names no address as the server's name (RFC 6066 §3).
    var isAddress: Bool { host.contains(":") || host.allSatisfy { $0.isNumber || $0 == "." } }

    package var description: String {
        "\(isTLS ? "https" : "http")://\(HostPort.text(host, port))"
    }
}

/// Settings with which the members of an etcd are reached.
package struct EtcdConfiguration: Sendable {
    /// The clients' ports of the members, at least one; those that members advertise are not used.
    package var endpoints: [EtcdEndpoint]
    /// TLS for endpoints of `https`. Default: the authorities of the system, no certificate of our own.
    package var tls = EtcdTLS()
    /// nil: etcd asks for no password. It is read again for each new token, so a file may be replaced.
    package var credentials: (user: String, password: @Sendable () throws -> String)?
    /// Limit of one call, and of one connection. Default 1.5 s: a member that has lost its peers would hang for seven.
    package var timeout: Duration = .milliseconds(1500)
    /// Bound of that limit where it follows how long calls take, as over an ocean or a thin line. Default nil: it stays.
    package var mostTimeout: Duration?
    /// Time between two pings on a watch, each with ``timeout`` twice for its answer. Default 10 s; members take
    /// offence at less than 5 s, and at any ping while no call is open.
    package var keepAlive: Duration = .seconds(10)

    package init(_ endpoints: [EtcdEndpoint]) { self.endpoints = endpoints }
}
