import StalecastDaemon
import StalecastEdge
import StalecastHub
import StalecastWire
import Testing

@Suite struct ConfigurationReloadTests {
    /// Another legal value for each option.
    private static let other = """
        data: elsewhere
        projects: [{id: prod, number: 1}]
        topics: [{name: A, scopes: [prod/firebase]}]
        edge:
          listen: 127.0.0.1:1
          streamEngine: false
          canary: false
          threads: 2
          heartbeat: 1s
          streamLifetime: 1s
          writeStallLimit: 1s
          headerTimeout: 1s
          idleTimeout: 1s
          maxHeadBytes: 1KiB
          maxConnections: 1
          maxConnectionsPerAddress: 1
          maxHandshakesPerAddress: 1
          maxTopicsPerStream: 1
          retry: 1s
          allowedOrigins: ["*"]
          dialects: [launchdarkly]
          hosts: [config.example]
          apiKeys: [k]
          proxied: true
          trustedProxies: [10.0.0.0/8]
          forwardedField: forwarded
          proxyProtocol: true
          poll: {defaultWait: 1s, maxWait: 1s}
          tls:
            certificate: c
            key: k
            others: [{certificate: d, key: l}]
            clientAuthorities: a
            requireClientCertificate: false
        control:
          listen: 127.0.0.1:2
          tokenFile: x
          tokenEnabled: false
          staleETagStatus: 409
          maxTemplateBytes: 1KiB
          metricsWithoutToken: true
          hosts: [console.example]
          maxConnections: 1
          proxied: true
          trustedProxies: [10.0.0.0/8]
          forwardedField: forwarded
          proxyProtocol: true
          tls:
            certificate: c
            key: k
            others: [{certificate: d, key: l}]
            clientAuthorities: a
            requireClientCertificate: false
        auth:
          mode: observe
          anonymous: [{actions: [watch]}]
          keys: [{name: k, id: stc_s_0123456789, sha256: [\(String(repeating: "ab", count: 32))], role: viewer}]
          issuers: [{name: i, issuer: i, audiences: [a], algorithms: [ES256], jwks: f, grantsInTokens: true}]
          allowedAddresses: [127.0.0.0/8]
          certificates: [{san: a.example, role: viewer}]
          hook: {url: "https://a.example", headers: [cookie], caFile: f}
        clients: {names: false, max: 2000}
        audit: {maxBytes: 16KiB, keep: 1}
        store:
          maxVersions: 1
          maxVersionAge: 1s
          minFreeSpace: 0B
          etcd: {endpoints: ["https://e"], user: u, passwordFile: p, caFile: c, certificate: c, key: k}
        cluster: {name: n, node: a, advertise: "http://a:1", fetch: local, maxUnverified: 1s, readiness: strict}
        sources:
          scopes: [{scope: prod/firebase, kind: file, path: t.json}]
          allowedAddresses: [127.0.0.0/8]
          addressProfile: internal
        releases: [{scope: prod/firebase-server, default: staged}]
        webhooks:
          receivers: [{name: w, project: prod, topics: [A], url: "https://w.example", secretFiles: [s]}]
          allowedAddresses: [127.0.0.0/8]
          addressProfile: internal
          httpsOnly: true
          keyFile: k
          filesDirectory: f
          requestOrigin: stale.example
          maxPerProject: 1
          maxInFlight: 1
          disableAfter: 1d
          attemptRetention: 1d
          deadLetterRetention: 1d
        log: {level: debug, format: json}
        shutdown: {drain: 1s}
        """

    @Test func equalConfigurationsHaveNoChanges() {
        #expect(Configuration().changesNeedingRestart(from: Configuration()).isEmpty)
        #expect(Configuration().liveChanges(from: Configuration()).isEmpty)
    }

    @Test func everyOptionIsEitherLiveOrNeedsARestart() throws {
        let other = try load(Self.other)
        // An edge has no sources and no webhooks.
        let edge = try load("store: {etcd: {endpoints: [\"https://e\"]}}\ncluster: {name: n, node: a, role: edge}")
        let restart =
            other.changesNeedingRestart(from: Configuration()) + edge.changesNeedingRestart(from: Configuration())
        let live = other.liveChanges(from: Configuration())
        #expect(Set(restart).isDisjoint(with: live))
        #expect(Set(restart + live) == Set(ConfigurationOption.all.map(\.path)))
        let expected = [
            "edge.heartbeat", "edge.streamLifetime", "edge.writeStallLimit", "edge.maxConnections",
            "edge.maxConnectionsPerAddress", "edge.maxHandshakesPerAddress", "edge.maxTopicsPerStream", "edge.retry",
            "edge.allowedOrigins", "edge.dialects", "edge.apiKeys", "edge.hosts", "edge.trustedProxies",
            "edge.forwardedField", "edge.proxyProtocol", "edge.poll.defaultWait", "edge.poll.maxWait",
            "control.tokenEnabled", "auth.mode", "auth.anonymous", "auth.keys", "auth.issuers", "auth.certificates",
            "store.maxVersions",
            "store.maxVersionAge",
            "webhooks.allowedAddresses", "webhooks.addressProfile", "webhooks.httpsOnly", "webhooks.filesDirectory",
            "webhooks.maxPerProject", "log.level",
        ]
        #expect(live == expected, "topics and receivers wait here, their project comes with the next start")
    }

    @Test func aWebhookOfAProjectAndTopicThatAreThereIsTakenOverAtOnce() throws {
        let receiver = "webhooks: {receivers: [{name: w, url: \"https://w.example\", topics: [A], secretFiles: [s]}]}"
        let here = try load("topics: [{name: A, scopes: [demo/firebase]}]\n" + receiver)
        #expect(here.liveChanges(from: Configuration()) == ["topics", "webhooks.receivers"])
        let later = try load(
            """
            projects: [{id: demo, number: 1, namespaces: [firebase, beta]}]
            topics: [{name: A, scopes: [demo/beta, demo/firebase]}]

            """ + receiver)
        #expect(later.liveChanges(from: Configuration()).isEmpty)
    }

    @Test func liveChangesAreAppliedAndTheOthersLeftAlone() throws {
        let new = try load(
            """
            edge: {listen: 127.0.0.1:1, heartbeat: 1s}
            topics: [{name: A, scopes: [demo/firebase]}]
            """)
        let running = new.applyingLiveChanges(to: Configuration())
        #expect(running.edge.listen.port == 8080)
        #expect(running.edge.settings.times.heartbeat == .seconds(1))
        #expect(running.topics.map(\.name.description) == ["A"])
        #expect(new.changesNeedingRestart(from: running) == ["edge.listen"])
    }

    @Test func topicsOverScopesOfTheNextStartWaitForIt() throws {
        let new = try load("projects: [{id: prod, number: 1}]\ntopics: [{name: A, scopes: [prod/firebase]}]")
        #expect(new.changesNeedingRestart(from: Configuration()) == ["projects", "topics"])
        #expect(new.applyingLiveChanges(to: Configuration()) == Configuration())
    }
}
