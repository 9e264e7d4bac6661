/// How an engine is run.
package struct OutboundConfiguration: Sendable {
    /// Requests under way at once; more wait their turn. Default 1,024.
    package var maxInFlight: Int
    /// Host names looked up at once: each takes a thread, for as long as the system's resolver holds it. Names that had
    /// no answer the last time share half of them. Requests whose connection is there do not wait. Default 64.
    package var maxLookups: Int
    /// Idle connections that are kept. Default 4,096: libcurl's own default would keep almost none.
    package var keptConnections: Int
    /// Handles kept for further requests; the one used longest ago gives way. Default 1,024.
    package var keptHandles: Int
    /// PEM file of trusted certificates; nil: where libcurl's builder put them, `/etc/ssl/certs/ca-certificates.crt`.
    package var caFile: String?
    /// Of the engine's thread, at most 15 characters.
    package var threadName: String

    package init(
        maxInFlight: Int = 1024, maxLookups: Int = 64, keptConnections: Int = 4096, keptHandles: Int = 1024,
        caFile: String? = nil, threadName: String = "outbound"
    ) {
        self.maxInFlight = maxInFlight
        self.maxLookups = maxLookups
        self.keptConnections = keptConnections
        self.keptHandles = keptHandles
        self.caFile = caFile
        self.threadName = threadName
    }
}

/// Why an engine cannot run.
package struct OutboundStartError: Error, CustomStringConvertible {
    package let description: String
}

/// What an engine has done so far, and does now.
package struct OutboundFigures: Sendable, Hashable {
    package var inFlight = 0
    package var waiting = 0
    package var requests: UInt64 = 0
    package var newConnections: UInt64 = 0
    package var reusedConnections: UInt64 = 0
    /// TLS handshakes, and how many of them resumed a session.
    package var handshakes: UInt64 = 0
    package var resumedHandshakes: UInt64 = 0
    package var blocked: UInt64 = 0
    /// CPU time of the engine's thread, in nanoseconds.
    package var cpu: UInt64 = 0
    /// The longest that one turn of the loop took, in nanoseconds.
    package var longestTurn: UInt64 = 0
    package var handles = 0
    /// Open connections, idle ones included.
    package var connections = 0
    /// Host names being looked up, each on a thread of its own; also when nobody waits for one any more.
    package var lookups = 0

    package init() {}
}

/// Names a request that was submitted.
package struct OutboundTicket: Sendable, Hashable {
    let number: UInt64
}

/// Names something to be done later.
package struct OutboundTimer: Sendable, Hashable {
    let number: UInt64
}
