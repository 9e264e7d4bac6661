import StalecastOutbound

/// Shares of the process's descriptors. Each part of the daemon that opens connections keeps to its share, so that none
/// can take what another needs: libdispatch ends the process when it cannot open `/proc/self/task`.
///
/// A share is fixed at start. The sum of all shares stays below the limit by ``reserve``.
package struct DescriptorBudget: Sendable, Hashable {
    /// The limit that the shares were made for.
    package let limit: Int
    package let edge: Int
    package let control: Int
    /// Sockets of webhooks: requests under way, idle connections that are kept, and lookups.
    package let outbound: Int
    /// Sources that are asked over the network.
    package let sources: Outbound
    /// The access hook's backend.
    package let hook: Outbound
    /// Key sets of issuers, and sign-ins with them.
    package let issuers: Outbound

    /// Parts that open connections only where the configuration has them.
    package struct Parts: Sendable, Hashable {
        /// Sources, and their fences, that are asked over the network.
        package var sources = 0
        package var hasHook = false
        /// Issuers whose keys have a URL.
        package var issuers = 0

        package init(sources: Int = 0, hasHook: Bool = false, issuers: Int = 0) {
            (self.sources, self.hasHook, self.issuers) = (sources, hasHook, issuers)
        }
    }

    /// The share of a part that asks others.
    package struct Outbound: Sendable, Hashable {
        /// Requests under way at once; each may try two addresses of a host at a time.
        package let requests: Int
        /// Idle connections that are kept.
        package let kept: Int
        /// Host names looked up at once; each lookup has a socket.
        package let lookups: Int

        /// - Parameter hosts: that are asked; 0 for a part that is not there.
        fileprivate init(hosts: Int, requests: Int, kept: Int, lookups: Int) {
            self.requests = hosts == 0 ? 0 : requests
            self.kept = hosts == 0 ? 0 : kept
            self.lookups = min(hosts, lookups)
        }

        /// Settings of an engine with this share, for at least one request.
        func engine(threadName: String) -> OutboundConfiguration {
            OutboundConfiguration(
                maxInFlight: max(1, requests), maxLookups: max(1, lookups), keptConnections: max(1, kept), shelves: 1,
                threadName: threadName)
        }

        package var sockets: Int { 2 * requests + kept + lookups }
    }

    /// The fewest descriptors with which the daemon starts.
    package static let least = 384
    /// Databases, event loops, logs, canaries, etcd, and what libcurl has for itself: 66 for webhooks, 4 for each other
    /// part. An idle daemon with all parts has 120 open.
    private static let own = 128
    /// Descriptors that no part may keep: for libdispatch, files that are read now and then, and connections that are
    /// being refused, of which Edge and Control have at most 24 each at a time.
    private static let reserve = 64

    /// Makes the shares of a process.
    ///
    /// - Throws: ``StartError`` below ``least``.
    package init(limit: UInt64, for parts: Parts = Parts()) throws(StartError) {
        guard limit >= Self.least else {
            throw StartError(
                "the process may open \(limit) files, and the daemon needs \(Self.least); raise the limit "
                    + "(`ulimit -n`, systemd's LimitNOFILE=, Docker's --ulimit nofile=)", exitStatus: 78)
        }
        self.init(shared: Int(clamping: limit), parts)
    }

    private init(shared limit: Int, _ parts: Parts) {
        self.limit = limit
        let room = limit - Self.own - Self.reserve
        control = Self.control(under: limit)
        outbound = min(32_768, max(64, room / 8))
        // Few descriptors make the parts slower, not smaller streams' share by much.
        let some = max(8, room / 32)
        // A source may have a stream, a look and a token under way.
        let fed = min(3 * parts.sources, 2 * some, 256)
        sources = Outbound(hosts: parts.sources, requests: fed, kept: min(fed, 32), lookups: min(some, 64))
        let asked = min(some, 64)
        hook = Outbound(hosts: parts.hasHook ? 1 : 0, requests: asked, kept: min(asked, 16), lookups: 1)
        let few = min(parts.issuers, 4)
        issuers = Outbound(hosts: parts.issuers, requests: few, kept: few, lookups: few)
        edge = room - control - outbound - sources.sockets - hook.sockets - issuers.sockets
    }

    /// Connections to Edge under a limit that was changed after the start: Control gives what it can, and the other
    /// parts keep the shares that they have.
    package func edge(under limit: UInt64) -> Int {
        // A process without a limit has one of `UInt64.max`, which is clamped to the largest `Int`.
        let (share, overflow) = (edge + control - control(under: limit))
            .addingReportingOverflow(Int(clamping: limit) - self.limit)
        return overflow ? .max : max(0, share)
    }

    /// Connections to Control under a limit that was changed after the start: never more than at the start.
    package func control(under limit: UInt64) -> Int { min(control, Self.control(under: Int(clamping: limit))) }

    private static func control(under limit: Int) -> Int { min(256, max(24, (limit - own - reserve) / 8)) }

    /// Host names that are looked up at once; each lookup has a socket.
    package var lookups: Int { max(4, outbound / 16) }
    /// Idle connections of webhooks that are kept, over all hosts.
    package var keptConnections: Int { max(32, outbound * 7 / 16) }
    /// Requests of webhooks under way at once; each may try two addresses of a host at a time.
    package var outboundRequests: Int { (outbound - keptConnections - lookups) / 2 }
}
