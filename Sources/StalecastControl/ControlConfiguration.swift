package import StalecastHTTP
package import StalecastStore
package import StalecastWire

/// Settings of the private listener that the configuration has in the same form.
package struct ControlSettings: Sendable, Equatable {
    /// Answer to a publish whose `If-Match` is out of date. Default 400.
    package var staleETagStatus = OutcomeMapping.StaleETagStatus.badRequest
    /// The largest body of a PUT, in bytes, as sent and inflated. Default 8 MiB; 64 KiB everywhere else.
    package var maxTemplateBytes = 8 * 1024 * 1024
    /// True serves `/metrics` to callers without a token. Default false.
    package var metricsWithoutToken = false
    /// Names under which Control may be asked for, beside addresses and `localhost`; empty: any, but on loopback none.
    /// Browsers may ask for the console, and pages use its cookie, under these names alone.
    package var hosts: [String] = []
    /// Proxies that may name their client. Default: none.
    package var proxies = TrustedProxies()

    package init() {}
}

/// Everything that can be decided about the private listener. Only the address has no default worth keeping.
package struct ControlConfiguration: Sendable {
    /// Default `127.0.0.1`.
    package var host: String
    /// 0, the default, takes a free port.
    package var port: Int
    package var settings = ControlSettings()
    /// Connections at once; more are answered with 503. Default 256.
    package var capacity = ControlCapacity(256)
    package var connections = ConnectionLimits()
    /// API keys that there may be, without those that are revoked or expired, and as many of these. Default 10,000, more
    /// than any list is read of.
    package var maxKeys = 10_000
    package var projects = Projects()
    /// nil, the default, listens without TLS.
    package var tls: TLSServer?
    /// The daemon's, for `/openapi.json`.
    package var version = "0"

    package init(host: String = "127.0.0.1", port: Int = 0) {
        self.host = host
        self.port = port
    }

    /// Rules that the configuration has for projects and their scopes.
    package struct Projects: Sendable {
        /// The namespaces a configured project serves, in configured order.
        package var namespaces: [ProjectID: [Namespace]] = [:]
        /// The words for the source a scope is fed by, and cannot be published to for; the others get versions through the
        /// API.
        package var feeds: [Scope: String] = [:]
        /// Projects whose templates another person has to approve.
        package var approvals: Set<ProjectID> = []
        /// Plans by which scopes release their versions; others have the standard policy, and publish instantly unless asked.
        package var releases: [Scope: ReleasePlan] = [:]
    }
}
