import StalecastControl
import StalecastEdge
import StalecastHTTP
import StalecastHub

extension ConfigurationOption {
    /// Every option, in the order of the reference text.
    package static let all: [ConfigurationOption] =
        [data] + edge + poll + edgeTLS + control + controlTLS + auth + clients + store + etcd + cluster + audit
        + [projects, topics, releases] + sources + webhooks + log + shutdown

    private static let data = ConfigurationOption(
        "data", \.data, .directory, .restart, flag: "--data",
        "Directory of the store, the control token and endpoints.json; made with mode 0700 if it does not exist.")

    private static let edge = [
        ConfigurationOption(
            "edge.listen", \.edge.listen, .address, .restart, flag: "--edge",
            "Address of the public listener; outside loopback it needs tls, or proxied."),
        ConfigurationOption(
            "edge.streamEngine", \.edge.streamEngine, .flag, .restart,
            "Serve ordinary streams, polls and fetches with the epoll engine; false serves all with the NIO front."),
        ConfigurationOption(
            "edge.canary", \.edge.canary, .flag, .restart,
            "A subscriber of our own in each scope, counted nowhere: how long messages and fetches take inside the process."
        ),
        ConfigurationOption(
            "edge.threads", \.edge.threads, .count(0...256, of: "threads", zero: "one per core"), .restart,
            "Threads of the stream engine."),
        ConfigurationOption(
            "edge.heartbeat", \.edge.settings.times.heartbeat, .duration(.milliseconds(100)...minutes(10)), .live,
            "Time between two comments on an idle stream, + or - 10 %; shorter than the idle timeouts of proxies."),
        ConfigurationOption(
            "edge.streamLifetime", \.edge.settings.times.streamLifetime, .duration(.seconds(1)...hours(24)), .live,
            "The longest a stream lives, + or - 20 %; its client then reconnects and resumes."),
        ConfigurationOption(
            "edge.writeStallLimit", \.edge.settings.connections.writeStallLimit,
            .duration(.milliseconds(100)...minutes(10)), .live,
            "How long a subscriber may read nothing while bytes wait for it, before it is closed."),
        ConfigurationOption(
            "edge.headerTimeout", \.edge.settings.connections.headTimeout, .duration(.milliseconds(100)...minutes(5)),
            .restart,
            "How long a request head may take to arrive."),
        ConfigurationOption(
            "edge.idleTimeout", \.edge.settings.connections.idleTimeout, .duration(.milliseconds(100)...hours(1)),
            .restart,
            "How long a keep-alive connection may wait for its next request."),
        ConfigurationOption(
            "edge.maxHeadBytes", \.edge.settings.connections.maxHeadBytes, .size(1024...65_536), .restart,
            "The largest request head; a larger one is refused with 431."),
        ConfigurationOption(
            "edge.maxConnections", \.edge.settings.caps.connections,
            .count(0...10_000_000, of: "connections", zero: "from the descriptor limit"), .live,
            "Connections in total; more are told to come back later."),
        ConfigurationOption(
            "edge.maxConnectionsPerAddress", \.edge.settings.caps.connectionsPerAddress,
            .count(0...10_000_000, of: "connections", zero: "no limit"), .live,
            "Connections from one address; behind a proxy all clients share the address of the proxy."),
        ConfigurationOption(
            "edge.maxHandshakesPerAddress", \.edge.settings.caps.handshakesPerAddress,
            .count(0...1_000_000, of: "connections a second", zero: "no limit"), .live,
            "With TLS, connections a second from one address that are let in; loopback has no limit."),
        ConfigurationOption(
            "edge.maxTopicsPerStream", \.edge.settings.maxTopicsPerStream, .count(1...1024, of: "topics"), .live,
            "Topics that one stream or poll may name."),
        ConfigurationOption(
            "edge.retry", \.edge.settings.times.retry, .duration(.milliseconds(100)...minutes(10)), .live,
            "Time that clients are told to wait before they reconnect, with jitter for each client."),
        ConfigurationOption(
            list: "edge.allowedOrigins", \.edge.settings.allowedOrigins, .origin, .live,
            "Web origins whose pages may read from Edge (CORS), spelled as browsers do; * alone is every origin."),
        ConfigurationOption(
            list: "edge.dialects", \.edge.settings.dialects, .choice, .live,
            "Protocols of other vendors' clients that Edge speaks besides: launchdarkly is for its client-side SDKs."),
        ConfigurationOption(
            list: "edge.apiKeys", \.edge.apiKeys, .apiKey, .live,
            "Firebase clients must show one of these keys to fetch (X-Goog-Api-Key or ?key=); an empty list lets all in."
        ),
        ConfigurationOption(
            list: "edge.hosts", \.edge.hosts, .hostName, .live,
            "Host names that clients may use for Edge, against DNS rebinding. IP addresses and localhost are always allowed; "
                + "other names get 421. Empty: any name, but on loopback without apiKeys none."),
        ConfigurationOption(
            "edge.proxied", \.edge.proxied, .flag, .restart, flag: "--proxied",
            "Permit listen outside loopback without tls: a proxy in front does it, or no stranger can reach Edge."),
        ConfigurationOption(
            list: "edge.trustedProxies", \.edge.settings.proxies.networks, .addressRange, .live,
            "Addresses of proxies that may name their clients; forwardedField from any other address is ignored."),
        ConfigurationOption(
            "edge.forwardedField", \.edge.settings.proxies.field, .choice, .live,
            "Header field in which trustedProxies name their clients; the last address that is not a proxy counts. The "
                + "proxies must set or extend this field."),
        ConfigurationOption(
            "edge.proxyProtocol", \.edge.settings.proxies.speakPROXY, .flag, .live,
            "Every connection comes from trustedProxies and begins with a PROXY header, version 1 or 2; others are closed."
        ),
    ]

    private static let poll = [
        ConfigurationOption(
            "edge.poll.defaultWait", \.edge.settings.times.pollDefaultWait, .duration(.zero...minutes(10)), .live,
            "How long a poll is held whose request names no wait; at most maxWait."),
        ConfigurationOption(
            "edge.poll.maxWait", \.edge.settings.times.pollMaxWait, .duration(.seconds(1)...minutes(10)), .live,
            "The longest a poll is held; a longer wait is cut to this."),
    ]

    private static let control = [
        ConfigurationOption(
            "control.listen", \.control.listen, .address, .restart, flag: "--control",
            "Address of the private listener; outside loopback it needs tls (its own or Edge's), or proxied."),
        ConfigurationOption(
            "control.tokenFile", \.control.tokenFile, .optionalFile, .restart,
            "File with the bearer token to use, instead of the one generated at first start."),
        ConfigurationOption(
            "control.tokenEnabled", \.control.tokenEnabled, .flag, .live,
            "False: the control token opens nothing any more. Make an operator's key first: `stalecast keys create`."),
        ConfigurationOption(
            "control.staleETagStatus", \.control.settings.staleETagStatus, .choice, .restart,
            "Status of the answer to a publish whose If-Match is out of date; Firebase documents both."),
        ConfigurationOption(
            "control.maxTemplateBytes", \.control.settings.maxTemplateBytes, .size(1024...67_108_864), .restart,
            "The largest body of a template PUT, as sent and after gzip is undone."),
        ConfigurationOption(
            "control.metricsWithoutToken", \.control.settings.metricsWithoutToken, .flag, .restart,
            "Serve /metrics to callers without the token."),
        ConfigurationOption(
            "control.maxConnections", \.control.maxConnections, .count(1...65_536, of: "connections"), .restart,
            "Connections in total."),
        ConfigurationOption(
            list: "control.hosts", \.control.settings.hosts, .hostName, .restart,
            "Host names that clients may use for Control, against DNS rebinding. IP addresses and localhost are always "
                + "allowed; other names get 421. Empty: no name on loopback; elsewhere any name, but none for the console."
        ),
        ConfigurationOption(
            "control.proxied", \.control.proxied, .flag, .restart, flag: "--proxied",
            "Permit listen outside loopback without tls: a proxy in front does it, or no stranger can reach Control."),
        ConfigurationOption(
            list: "control.trustedProxies", \.control.settings.proxies.networks, .addressRange, .restart,
            "Addresses of proxies that may name their clients; forwardedField from any other address is ignored."),
        ConfigurationOption(
            "control.forwardedField", \.control.settings.proxies.field, .choice, .restart,
            "Header field in which trustedProxies name their clients; the last address that is not a proxy counts. The "
                + "proxies must set or extend this field."),
        ConfigurationOption(
            "control.proxyProtocol", \.control.settings.proxies.speakPROXY, .flag, .restart,
            "Every connection comes from trustedProxies and begins with a PROXY header, version 1 or 2; others are closed."
        ),
    ]

    private static let clients = [
        ConfigurationOption(
            "clients.names", \.clients.keepsNames, .flag, .restart,
            "Keep ids, addresses, apps and SDKs of clients in memory, to name who is behind; false only counts."),
        ConfigurationOption(
            "clients.max", \.clients.clients, .count(1024...1_048_576, of: "clients"), .restart,
            "Clients that are counted one by one, about 80 bytes each; above it a sample stands for all."),
    ]

    private static let store = [
        ConfigurationOption(
            "store.maxVersions", \.store.maxVersions, .count(1...100_000, of: "versions"), .live,
            "Versions kept in each scope; the current one always is."),
        ConfigurationOption(
            "store.maxVersionAge", \.store.maxVersionAge, .duration(.seconds(1)...days(3650)), .live,
            "Age from which versions that are not current are removed."),
        ConfigurationOption(
            "store.minFreeSpace", \.store.minFreeSpace, .size(0...(1 << 40)), .restart,
            "Disk space that must be free for a publish to begin; 0B does not check."),
    ]

    private static let audit = [
        ConfigurationOption(
            "audit.maxBytes", \.audit.maxBytes, .size(16_384...(1 << 40)), .restart,
            "The size from which on the log goes on in another file; the full one is named after its last line."),
        ConfigurationOption(
            "audit.keep", \.audit.keep, .count(0...1_000_000, of: "files"), .restart,
            "Full files that stay; older ones are removed, and the log says so."),
    ]

    private static let log = [
        ConfigurationOption(
            "log.level", \.log.level, .choice, .live, flag: "--log-level", "The lowest level that is logged."),
        ConfigurationOption(
            "log.format", \.log.format, .choice, .restart, flag: "--log-format",
            "text for terminals; json, one object in each line, for collectors."),
    ]

    private static let shutdown = [
        ConfigurationOption(
            "shutdown.drain", \.shutdown.drain, .duration(.zero...(.seconds(10))), .restart,
            "The time over which streams are ended, one by one; the daemon exits within 15 s whatever this says.")
    ]
}

private func minutes(_ count: Int) -> Duration { .seconds(count * 60) }
private func hours(_ count: Int) -> Duration { .seconds(count * 3600) }
private func days(_ count: Int) -> Duration { .seconds(count * 86_400) }
