package import Logging
package import StalecastAccess
package import StalecastControl
package import StalecastEdge
package import StalecastHub
package import StalecastStore
package import StalecastWire

/// Everything an operator can decide about one daemon. `Configuration()` is what `stalecast serve` runs with when
/// nothing is configured: the defaults stand here and nowhere else, `ConfigurationOption.all` says what each value
/// means.
package struct Configuration: Sendable, Equatable {
    /// Directory of the store, the control token and `endpoints.json`; relative to the working directory.
    package var data = "./stalecast-data"
    package var edge = Edge()
    package var control = Control()
    package var auth = Auth()
    /// Limits of what is kept of clients that identify themselves.
    package var clients = RolloutTracker.Limits()
    package var store = Store()
    /// Counts only with `store.etcd.endpoints`.
    package var cluster = Cluster()
    package var audit = AuditLog.Limits()
    /// The projects served; at least one, ids and numbers unique.
    package var projects = [Project.demo]
    /// The topics as configured; see `effectiveTopics` for those that exist.
    package var topics: [TopicBinding] = []
    /// Scopes that release their versions otherwise than by the standard.
    package var releases: [ReleasePlan] = []
    package var sources = Sources()
    package var webhooks = Webhooks()
    package var log = Log()
    package var shutdown = Shutdown()

    package init() {}

    /// Every scope of every project, in the order configured.
    package var scopes: [Scope] {
        projects.flatMap { project in project.namespaces.map { Scope(project: project.id, namespace: $0) } }
    }

    /// Control's TLS: its own, else Edge's where Control can be reached from outside.
    package var controlTLS: TLS {
        control.tls.certificate == nil && !control.listen.isLoopback ? edge.tls : control.tls
    }

    /// The topics that exist: those configured, preceded by `PUSH_RC` for the client templates and `PUSH_RC_SERVER` for
    /// the server templates, unless an entry redefines them.
    package var effectiveTopics: [TopicBinding] {
        let servers = scopes.filter { $0.namespace == .firebaseServer }
        let clients = scopes.filter { $0.namespace != .firebaseServer }
        let currentPrincipal = [
            TopicBinding(name: .pushRC, scopes: clients), TopicBinding(name: .pushRCServer, scopes: servers),
        ]
        let configured = Set(topics.map(\.name))
        return currentPrincipal.filter { !$0.scopes.isEmpty && !configured.contains($0.name) } + topics
    }
}

extension Configuration {
    /// The public listener: streams, polls, fetches.
    package struct Edge: Sendable, Equatable {
        package var listen = ListenAddress(host: "127.0.0.1", port: 8080)
        /// True: the epoll stream engine serves what it recognises. False: the NIO front serves all streams.
        package var streamEngine = true
        /// Whether each scope has a subscriber of our own, which says how long messages and fetches take. Default true.
        package var canary = true
        /// Threads of the stream engine; 0 is one per core.
        package var threads = 0
        /// Settings that can change while Edge runs, with Edge's own defaults. `maxConnections` 0 derives it from the
        /// descriptor limit; `apiKeys` is empty here, see below.
        package var settings: EdgeSettings
        /// API keys of which Firebase's clients must show one; empty asks for none.
        package var apiKeys: [APIKey] = []
        /// Names under which Edge may be asked for; empty is any, but on loopback without `apiKeys` only addresses and
        /// `localhost`.
        package var hosts: [String] = []
        /// True: a proxy in front does TLS, so `listen` may be outside loopback without any.
        package var proxied = false
        package var tls = TLS()

        package init() {
            settings = EdgeSettings()
            settings.caps.connections = 0
        }
    }

    /// The private listener: template API, status, metrics.
    package struct Control: Sendable, Equatable {
        package var listen = ListenAddress(host: "127.0.0.1", port: 8081)
        /// File holding the bearer token to use; nil: the token generated at first start.
        package var tokenFile: String?
        /// False: the control token opens nothing; operators have keys or tokens.
        package var tokenEnabled = true
        /// Settings that Control takes as they are, with its own defaults.
        package var settings = ControlSettings()
        package var maxConnections = 256
        /// True: as Edge's.
        package var proxied = false
        package var tls = TLS()
    }

    package struct TLS: Sendable, Equatable {
        /// PEM file of the certificate and its issuers; nil: no TLS.
        package var certificate: String?
        /// PEM file of its key.
        package var key: String?
        /// Further certificates, for the clients that ask for one of their names.
        package var others: [Pair] = []
        /// PEM file of the authorities of clients' certificates; nil asks for none.
        package var clientAuthorities: String?
        /// False lets clients without a certificate in.
        package var requireClientCertificate = true

        /// A certificate and its key, as files.
        package struct Pair: Sendable, Equatable {
            package var certificate: String
            package var key: String
        }

        /// The first is for clients that name none of the others; empty: no TLS.
        package var pairs: [Pair] {
            guard let certificate, let key else { return [] }
            return [Pair(certificate: certificate, key: key)] + others
        }
    }

    /// Credentials and their permissions.
    package struct Auth: Sendable, Equatable {
        /// Whether Edge asks for credentials and grants.
        package var mode = EdgeAccess.Mode.off
        /// Grants of Edge's callers without a credential.
        package var anonymous: [Grant] = []
        /// API keys known by their hash, beside those the store has.
        package var keys: [AccessKey] = []
        /// Issuers whose tokens are taken.
        package var issuers: [TokenIssuer] = []
        package var certificates: [ClientCertificate.Rule] = []
        /// The user's backend that says who asks at Edge.
        package var hook = Hook()
        /// Addresses that are not public where key sets may be fetched, and the hook may be.
        package var allowedAddresses: [CIDR] = []
    }

    /// See ``CallerHook``.
    package struct Hook: Sendable, Equatable {
        /// nil: no hook.
        package var url: String?
        /// Names of the headers that are passed on, in lower case.
        package var headers: [String] = []
        /// PEM file of the authorities of the URL's host; nil for the system's.
        package var caFile: String?
    }

    /// Limits of what the store keeps.
    package struct Store: Sendable, Equatable {
        /// Versions kept per scope; the current one always is.
        package var maxVersions = 300
        /// Age from which versions that are not current are removed.
        package var maxVersionAge: Duration = .seconds(90 * 86_400)
        /// Bytes that must be free on the disk for a publish to begin; 0 does not check.
        package var minFreeSpace = 16 * 1024 * 1024
        package var etcd = Etcd()
        /// `--begin-empty`: for one start, so it is no key of the file.
        package var beginEmpty = false
    }

    /// One project: both its id and its number resolve to it in URLs.
    package struct Project: Sendable, Equatable {
        package var id: ProjectID
        /// Number from 1; part of every ETag.
        package var number: Int64
        /// Namespaces, at least one, no duplicates.
        package var namespaces: [Namespace]
        /// True: Edge serves the server template too, to every client that reaches it.
        package var serverTemplateOnEdge = false
        /// Whether another person has to approve what is published.
        package var approvals = Approvals.optional

        /// Rule of approvals: optional, or required for each publish.
        package enum Approvals: String, Sendable, CaseIterable { case optional, required }

        package init(id: ProjectID, number: Int64, namespaces: [Namespace] = [.firebase, .firebaseServer]) {
            (self.id, self.number, self.namespaces) = (id, number, namespaces)
        }

        /// Project that is served when none is configured: `demo`, 123456789012.
        package static let demo = Project(id: .demo, number: 123_456_789_012)
    }

    package struct Log: Sendable, Equatable {
        package var level = Logger.Level.info
        package var format = LogFormat.text
    }

    /// `text` for terminals, `json` (one object per line) for collectors.
    package enum LogFormat: String, Sendable, CaseIterable {
        case text, json
    }

    /// Settings of the daemon's end.
    package struct Shutdown: Sendable, Equatable {
        /// The time over which streams are ended one after the other; the daemon is gone within 15 s whatever this
        /// says.
        package var drain: Duration = .seconds(5)
    }
}

extension Configuration {
    /// Key paths whose value differs from `old` and cannot be applied without a restart, in the order of the table.
    package func changesNeedingRestart(from old: Configuration) -> [String] {
        changes(from: old).filter { !appliesLive($0, over: old) }.map(\.path)
    }

    /// Key paths whose value differs from `old` and can be applied at once, in the order of the table.
    package func liveChanges(from old: Configuration) -> [String] {
        changes(from: old).filter { appliesLive($0, over: old) }.map(\.path)
    }

    /// `old` with the live changes of this configuration: what a daemon started with `old` runs with after SIGHUP.
    package func applyingLiveChanges(to old: Configuration) -> Configuration {
        var running = old
        for option in changes(from: old) where appliesLive(option, over: old) { option.copy(self, &running) }
        return running
    }

    private func changes(from old: Configuration) -> [ConfigurationOption] {
        ConfigurationOption.all.filter { !$0.isEqual(old, self) }
    }

    /// Topics over scopes that come into being only with the next start have to wait for it too, and so have webhooks
    /// of projects or topics that wait.
    private func appliesLive(_ option: ConfigurationOption, over old: Configuration) -> Bool {
        if option.needsRestart { return false }
        let topicsApply = topics.allSatisfy { Set($0.scopes).isSubset(of: old.scopes) }
        switch option.path {
        case ConfigurationOption.topics.path: return topicsApply
        case ConfigurationOption.receiversPath:
            return topicsApply && Set(webhooks.receivers.map(\.project)).isSubset(of: old.projects.map(\.id))
        default: return true
        }
    }
}
