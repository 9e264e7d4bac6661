import CLinux

/// Shares of the process's descriptors. Each part of the daemon that opens connections keeps to its share, so that none
/// can take what another needs: libdispatch ends the process when it cannot open `/proc/self/task`.
///
/// A share is fixed at start. The sum of all shares stays below the limit by ``reserve``.
package struct DescriptorBudget: Sendable, Hashable {
    /// The limit that the shares were made for.
    package let limit: Int
    /// Connections to Edge.
    package let edge: Int
    /// Connections to Control.
    package let control: Int
    /// Sockets of webhooks: requests under way, idle connections that are kept, and lookups.
    package let outbound: Int

    /// The fewest descriptors with which the daemon starts.
    package static let least = 384
    /// Databases, event loops, logs, canaries, sources, etcd and issuers. An idle daemon has 110 open.
    private static let own = 128
    /// Descriptors that no part may keep: for libdispatch, files that are read now and then, and connections that are being
    /// refused, of which Edge and Control have at most 24 each at a time.
    private static let reserve = 64

    /// Makes the shares of a process.
    ///
    /// - Throws: ``StartError`` below ``least``.
    package init(limit: UInt64) throws(StartError) {
        guard limit >= Self.least else {
            throw StartError(
                "the process may open \(limit) files, and the daemon needs \(Self.least); raise the limit "
                    + "(`ulimit -n`, systemd's LimitNOFILE=, Docker's --ulimit nofile=)", exitStatus: 78)
        }
        self.init(shared: Int(clamping: limit))
    }

    private init(shared limit: Int) {
        self.limit = limit
        let room = limit - Self.own - Self.reserve
        control = min(256, max(24, room / 8))
        outbound = min(32_768, max(64, room / 8))
        edge = room - control - outbound
    }

    /// The shares of this process, after it has raised its limit as far as it may.
    package static func ofThisProcess() throws(StartError) -> DescriptorBudget {
        try DescriptorBudget(limit: stalecast_raise_descriptor_limit())
    }

    /// Host names that are looked up at once; each lookup has a socket.
    package var lookups: Int { max(4, outbound / 16) }
    /// Idle connections of webhooks that are kept, over all hosts.
    package var keptConnections: Int { max(32, outbound * 7 / 16) }
    /// Requests of webhooks under way at once; each may try two addresses of a host at a time.
    package var outboundRequests: Int { (outbound - keptConnections - lookups) / 2 }
}
