package import StalecastHTTP

/// Settings of Edge that can change while it runs: read by every shard and by the Front.
package struct EdgeSettings: Sendable, Equatable {
    package var times = SubscriberTimes()
    package var caps = ConnectionCaps()
    /// Limits of one connection. A body has the time of a head; default of the write-stall limit: 10 s.
    package var connections = ConnectionLimits() { didSet { connections.bodyTimeout = connections.headTimeout } }
    /// Largest request body in bytes. Default 64 KiB.
    package var maxBodyBytes = 65_536
    /// Topics one stream or poll may name. Default 64.
    package var maxTopicsPerStream = 64
    /// Origins that browsers may read from, for example `https://app.example`; `*` alone means any. Default none.
    package var allowedOrigins: [String] = []
    /// Dialects that are spoken besides. Default none.
    package var dialects: [EdgeDialect] = []
    /// The API keys of which Firebase's clients must show one to fetch; empty (the default) asks for none.
    package var apiKeys: [String] = [] { didSet { keys = APIKeys(apiKeys) } }
    private(set) var keys = APIKeys([])
    /// Rules for listening and fetching. Default: no credential is asked for.
    package var access = EdgeAccess()

    /// Proxies that may name their client. Default: none.
    package var proxies = TrustedProxies()

    package init() {
        connections.writeStallLimit = .seconds(10)
        connections.bodyTimeout = connections.headTimeout
    }
}

/// Times of streams and polls before ``SubscriberPolicy`` moves them at random.
package struct SubscriberTimes: Sendable, Equatable {
    /// Time between comments on a silent stream; each is moved by ± 10 %. Default 25 s: below the 30 s at which the
    /// strictest common proxies cut.
    package var heartbeat: Duration = .seconds(25)
    /// Age at which a stream ends and the client reconnects; moved by ± 20 %. Default 30 min.
    package var streamLifetime: Duration = .seconds(1800)
    /// Age at which a Firebase stream ends, or up to a fifth earlier. Default 300 s: the iOS SDK gives up at 330 s.
    package var invalidationLifetime: Duration = .seconds(300)
    /// Delay after which a burst's newest message is repeated on a Firebase stream; see ``BurstEcho``. Default 5 s: an
    /// SDK waits up to 3 s before it fetches.
    package var burstEcho: Duration = .seconds(5)
    /// Smallest reconnect delay told to clients; each is told this plus up to as much again. Default 3 s.
    package var retry: Duration = .seconds(3)
    /// Time that a poll is held when it does not say. Default 55 s: below common proxies' 60 s.
    package var pollDefaultWait: Duration = .seconds(55)
    /// The longest `wait` granted. Default 600 s.
    package var pollMaxWait: Duration = .seconds(600)
}

/// Limits on connections. ``AddressLedger`` enforces the caps in total and per address.
package struct ConnectionCaps: Sendable, Equatable {
    /// Connections held at once; more are refused. Default 10,000; the daemon derives it from the descriptor limit.
    package var connections = 10_000
    /// Connections held at once from one address; 0 (the default) is no limit of its own.
    package var connectionsPerAddress = 0
    /// Connections a second that one address may begin on a TLS listener; 0 is no limit. Default 50. Loopback has none:
    /// there a proxy speaks for all.
    package var handshakesPerAddress = 50
    /// Silence after which a connection that has asked nothing makes room for a new one at the cap. Default 1 s.
    package var silence: Duration = .seconds(1)
}
