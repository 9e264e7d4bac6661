/// Settings of an engine.
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
    /// libcurl's multi handles, 2 descriptors each. Each request makes libcurl walk through all connections of its handle,
    /// so an engine that speaks to thousands of hosts has several. Default 32.
    package var shelves: Int
    /// PEM file of trusted certificates; nil: where libcurl's builder put them, `/etc/ssl/certs/ca-certificates.crt`.
    package var caFile: String?
    /// Name of the engine's thread, at most 15 characters.
    package var threadName: String

    package init(
        maxInFlight: Int = 1024, maxLookups: Int = 64, keptConnections: Int = 4096, keptHandles: Int = 1024,
        shelves: Int = 32, caFile: String? = nil, threadName: String = "outbound"
    ) {
        self.maxInFlight = maxInFlight
        self.maxLookups = maxLookups
        self.keptConnections = keptConnections
        self.keptHandles = keptHandles
        self.shelves = max(1, shelves)
        self.caFile = caFile
        self.threadName = threadName
    }
}

extension OutboundConfiguration {
    /// Names something to be done later.
    package struct Timer: Sendable, Hashable {
        let number: UInt64
    }
}
