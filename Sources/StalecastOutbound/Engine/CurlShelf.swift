import CCurl

/// One of libcurl's multi handles with the easy handles for it. Each request of a handle makes libcurl walk through all
/// connections of its multi handle once or twice, so thousands of hosts are spread over several.
struct CurlShelf {
    let curl: UnsafeMutablePointer<stalecast_curl>
    var pool: HandlePool

    /// As many as there are; a request's is chosen by its host and port, so that all requests to one share connections.
    static let count = 32

    /// Nil when memory is short.
    init?(epoll: Int32, number: Int, _ configuration: OutboundConfiguration) {
        // Hosts are not spread evenly: one may have many webhooks.
        let share = max(16, configuration.keptConnections / 4)
        guard let curl = stalecast_curl_new(epoll, UInt32(number), share) else { return nil }
        self.curl = curl
        let handles = max(8, 2 * configuration.keptHandles / Self.count)
        pool = HandlePool(curl, capacity: handles, caFile: configuration.caFile)
    }

    static func number(of url: OutboundURL) -> Int { url.spread % count }
}
