package import StalecastWire

/// The proxies in front of a listener whose word about their clients is taken. No other peer's is.
package struct TrustedProxies: Sendable, Hashable {
    /// Header field in which proxies name the client. One only: a proxy passes on, as it came, what it does not know.
    package enum Field: String, Sendable, CaseIterable {
        case xForwardedFor = "x-forwarded-for"
        /// RFC 7239.
        case forwarded
    }

    /// Default none.
    package var networks: [CIDR] = []
    package var field = Field.xForwardedFor
    /// Every connection comes from one of them and begins with a PROXY header. Default false.
    package var speakPROXY = false

    package init() {}

    package func trust(_ address: IPAddress) -> Bool { networks.contains { $0.contains(address) } }

    /// Client of a request that came through the trusted `proxy`: the last address in the values of ``field`` that is
    /// no proxy. What stands before may be a client's invention.
    ///
    /// What is no address ends the search: then it is the last proxy that is known.
    package func client(behind proxy: IPAddress, saying values: [some StringProtocol]) -> IPAddress {
        var client = proxy
        for value in values.reversed() {
            for entry in value.utf8.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false).reversed() {
                guard let address = address(String(decoding: entry, as: UTF8.self)) else { return client }
                client = address
                if !trust(address) { return client }
            }
        }
        return client
    }

    /// Address of one entry, which may have a port.
    private func address(_ entry: String) -> IPAddress? {
        var text = entry.trimmingBlanks()
        if field == .forwarded {
            let pairs = text.split(separator: ";").map { $0.trimmingBlanks() }
            guard let pair = pairs.first(where: { $0.prefix(4).isField("for=") }) else { return nil }
            text = pair.dropFirst(4)
            let isQuoted = text.first == "\""
            guard isQuoted == (text.count > 1 && text.last == "\"") else { return nil }
            if isQuoted { text = text.dropFirst().dropLast() }
        }
        if text.first == "[" {
            let inside = text.dropFirst().prefix { $0 != "]" }
            let rest = text[inside.endIndex...].dropFirst()
            guard inside.endIndex < text.endIndex, rest.isEmpty || rest.first == ":" else { return nil }
            return IPAddress(String(inside)).flatMap { $0.isIPv4 ? nil : $0.canonical }
        }
        // One colon parts a port from an IPv4 address.
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        return IPAddress(String(parts.count == 2 ? parts[0] : text))?.canonical
    }
}
