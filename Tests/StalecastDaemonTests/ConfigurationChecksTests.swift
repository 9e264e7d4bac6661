import StalecastDaemon
import StalecastEdge
import StalecastHub
import StalecastWire
import Testing

@Suite struct ConfigurationChecksTests {
    @Test func bothListenersNeedTheirOwnPort() {
        #expect(problems("control: {listen: 127.0.0.1:8080}").first?.contains("same port") == true)
        #expect(problems("edge: {listen: 127.0.0.1:0}\ncontrol: {listen: 127.0.0.1:0}").isEmpty)
    }

    @Test(arguments: ["0.0.0.0:1", "\"[::]:1\"", "192.168.1.1:1", "example.com:1", "\"[::ffff:10.0.0.1]:1\""])
    func aBindOutsideLoopbackNeedsTLSOrAProxy(address: String) {
        for listener in ["edge", "control"] {
            let found = problems("\(listener): {listen: \(address)}")
            #expect(found.count == 1 && found[0].contains("\(listener): {proxied: true}"), "\(found)")
            #expect(problems("\(listener): {listen: \(address), proxied: true}").isEmpty)
            #expect(problems("\(listener): {listen: \(address), tls: {certificate: c, key: k}}").isEmpty)
        }
        let overrides = ConfigurationOverrides(proxied: true)
        #expect(problems("{edge: {listen: \(address)}, control: {listen: 0.0.0.0:2}}", overrides: overrides).isEmpty)
        let tls = "edge: {tls: {certificate: c, key: k}}\n"
        #expect(problems(tls + "control: {listen: \(address)}").isEmpty, "Edge's certificate is Control's too")
    }

    @Test(arguments: ["127.0.0.1:1", "127.9.9.9:1", "localhost:1", "\"[::1]:1\"", "\"[::ffff:127.0.0.1]:1\""])
    func loopbackNeedsNoFlag(address: String) {
        #expect(problems("edge: {listen: \(address)}").isEmpty)
    }

    @Test(arguments: [
        "127.0.0.1", ":8080", "127.0.0.256:80", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:", "::1:80", "[::1]",
        "[::g]:80", "[127.0.0.1]:80", "a b:80", "-a:80", "a..b:80", "127.0.0.1:80 ", "1.2.3:80", "[::1]x:80", "",
        "127.0.0.1:99999999999999999999",
    ])
    func anAddressThatIsNoneIsRefused(text: String) {
        #expect(throws: InvalidValue.self) { try ListenAddress(parsing: text) }
    }

    @Test(arguments: ["127.0.0.1:0", "[::1]:65535", "localhost:8080", "edge-1.example.com:80"])
    func anAddressIsPrintedAsItIsRead(text: String) throws {
        #expect(try ListenAddress(parsing: text).description == text)
    }

    @Test(arguments: [
        "https://a.example/", "a.example", "https://A.example", "https://a.example:443", "http://a.example:80",
        "https://", "https://a.example?x", "https://u@a.example", "null", "https://a.example:x", "://a",
        "https://*.a.b",
    ])
    func anOriginNoBrowserSendsIsRefused(origin: String) {
        #expect(problems("edge: {allowedOrigins: [\"\(origin)\"]}").count == 1)
    }

    @Test func starStandsAlone() throws {
        #expect(try load("edge: {allowedOrigins: [\"*\"]}").edge.settings.allowedOrigins == ["*"])
        #expect(problems("edge: {allowedOrigins: [\"*\", \"https://a.example\"]}").count == 1)
    }

    @Test func theDefaultWaitIsAtMostTheLongest() {
        #expect(problems("edge: {poll: {maxWait: 30s}}").first?.contains("longer than edge.poll.maxWait (30s)") == true)
        #expect(problems("edge: {poll: {maxWait: 30s, defaultWait: 30s}}").isEmpty)
    }

    @Test func refusedProjectsDoNotBlameTopics() {
        let found = problems("projects: [{id: prod, number: 0}]\ntopics: [{name: A, scopes: [prod/firebase]}]")
        #expect(found.count == 1 && found[0].contains("projects[0].number"), "\(found)")
    }

    @Test func aValueThatReplacesARefusedOneIsCheckedWithTheOthers() {
        let found = problems("edge: {listen: x}", environment: ["STALECAST_EDGE_LISTEN": "127.0.0.1:8081"])
        #expect(found.count == 2 && found[1].contains("same port"), "\(found)")
    }

    @Test func aRefusedValueDoesNotBlameDefaults() {
        let found = problems("edge: {listen: x}\ncontrol: {listen: 127.0.0.1:8080}")
        #expect(found.count == 1 && found[0].contains("edge.listen"), "\(found)")
    }
}

@Suite struct ConfigurationClusterTests {
    @Test func aClusterIsReadWholeAndANodeIsNamedAfterItsHost() throws {
        let text = "store: {etcd: {endpoints: [\"http://10.0.0.11:2379\", 10.0.0.12, \"http://[::1]:1\"]}}\n"
        let configuration = try load(text + "cluster: {name: shop-1, node: a, maxUnverified: 10m, fetch: local}")
        let endpoints = configuration.store.etcd.endpoints.map { "\($0)" }
        #expect(endpoints == ["http://10.0.0.11:2379", "http://10.0.0.12:2379", "http://[::1]:1"])
        #expect(configuration.isClustered && configuration.cluster.effectiveNode == "a")
        #expect(configuration.cluster.maxUnverified == .seconds(600))
        let host = try load(text).cluster.effectiveNode
        #expect((1...63).contains(host.utf8.count) && problems(text + "cluster: {node: \"\(host)\"}").isEmpty)
        #expect(try !load("").isClustered)
    }

    @Test(arguments: [
        "cluster: {name: shop}", "cluster: {node: a}", "cluster: {fetch: local}",
        "store: {etcd: {user: u, passwordFile: p}}",
        "store: {etcd: {caFile: c}}",
    ])
    func aClusterWithoutEtcdSaysWhatToDo(text: String) {
        let found = problems(text)
        #expect(found.count == 1 && found[0].contains("name etcd's members there"), "\(found)")
    }

    @Test(arguments: [
        ("user: u", "user means nothing without store.etcd.passwordFile"),
        ("passwordFile: p", "passwordFile means nothing without store.etcd.user"),
        ("certificate: c", "certificate means nothing without store.etcd.key"),
        ("key: k", "key means nothing without store.etcd.certificate"),
    ])
    func whatComesInTwosIsNotTakenAlone(keys: String, expected: String) {
        let found = problems("store: {etcd: {endpoints: [\"https://e\"], \(keys)}}")
        #expect(found.count == 1 && found[0].contains("store.etcd." + expected), "\(found)")
    }

    /// Refuses early what the log of a cluster refuses.
    @Test func templatesThatNoClusterTakesAreNotAskedFor() {
        let etcd = "store: {etcd: {endpoints: [e]}}\n"
        #expect(problems(etcd + "control: {maxTemplateBytes: 16MiB}").isEmpty)
        let found = problems(etcd + "control: {maxTemplateBytes: 17MiB}")
        #expect(found.count == 1 && found[0].contains("write control.maxTemplateBytes: 16MiB, or less"), "\(found)")
        #expect(problems("control: {maxTemplateBytes: 17MiB}").isEmpty)
    }

    @Test func nodesHaveSomeSettingsInCommon() throws {
        let etcd = "store: {etcd: {endpoints: [e]}"
        let one = try load("\(etcd)}\n").sharedSettings
        let own = try load(
            """
            \(etcd), minFreeSpace: 1MiB}
            data: /elsewhere
            edge: {listen: "127.0.0.1:9", threads: 3}
            control: {listen: "127.0.0.1:10"}
            cluster: {node: b, advertise: "http://10.0.0.1:8081"}
            log: {level: debug}
            """
        ).sharedSettings
        #expect(one == own, "what is a node's own business")
        let changes = [
            ("topics", "topics: [{name: A, scopes: [demo/firebase]}]"), ("edge", "edge: {heartbeat: 3s}"),
            ("auth", "auth: {mode: observe}"), ("webhooks", "webhooks: {httpsOnly: true}"),
            ("cluster", "cluster: {fetch: local}"),
            ("projects", "projects: [{id: demo, number: 7, namespaces: [firebase]}]"),
        ]
        for (part, text) in changes {
            let other = try load("\(etcd)}\n\(text)").sharedSettings
            #expect(Set(one.keys) == Set(other.keys) && other[part] != nil)
            #expect(one.keys.filter { one[$0] != other[$0] } == [part], "\(part)")
        }
    }

    @Test func anEdgeReadsItsCopyAndHasLessToAgreeOn() throws {
        let edge = "store: {etcd: {endpoints: [e]}}\ncluster: {role: edge"
        #expect(try load("\(edge)}\n").cluster.fetch == .local)
        #expect(try load("\(edge), fetch: verified}\n").cluster.fetch == .verified)
        #expect(try load("store: {etcd: {endpoints: [e]}}\n").cluster.fetch == .verified)
        let core = try load("store: {etcd: {endpoints: [e]}}\n").sharedSettings
        let own = try load("\(edge)}\n").sharedSettings
        #expect(Set(own.keys) == ["projects", "topics", "releases"])
        #expect(own.allSatisfy { core[$0.key] == $0.value })
    }

    @Test(arguments: [
        ("sources: {scopes: [{scope: demo/firebase, kind: file, path: /t.json}]}", "an edge watches no source"),
        (
            "webhooks: {receivers: [{name: w, url: \"https://w.example\", secretFiles: [s]}]}",
            "an edge calls no webhook"
        ),
    ])
    func anEdgeHasNoSourceAndNoWebhook(text: String, expected: String) {
        let found = problems("store: {etcd: {endpoints: [e]}}\ncluster: {role: edge}\n\(text)")
        #expect(found.count == 1 && found[0].contains(expected), "\(found)")
    }

    @Test(arguments: ["http://[e]:1", "https://[10.0.0.11]:2379", "[stalecast]"])
    func whatStandsInBracketsIsAnIPv6Address(endpoint: String) {
        let found = problems("store: {etcd: {endpoints: [\"\(endpoint)\"]}}")
        let sentence = "\"\(endpoint)\" is no URL such as http://10.0.0.11:2379; in brackets stands an IPv6 address"
        #expect(found.count == 1 && found[0].contains("store.etcd.endpoints[0]: " + sentence), "\(found)")
    }

    @Test(arguments: [
        "store: {etcd: {endpoints: [\"http://e\"], caFile: c}}",
        "store: {etcd: {endpoints: [\"http://e\", \"https://f\"]}}",
        "store: {etcd: {endpoints: [\"http://e/v3\"]}}", "store: {etcd: {endpoints: [\"http://e:0\"]}}",
        "store: {etcd: {endpoints: [\"ftp://e\"]}}", "store: {etcd: {endpoints: [\"http://a b\"]}}",
        "store: {etcd: {endpoints: http://e}}", "store: {etcd: {endpoints: [\"http://[g:]:1\"]}}",
        "store: {etcd: {endpoints: [\"http://[e]:1\"]}}", "store: {etcd: {endpoints: [\"http://[127.0.0.1]:1\"]}}",
        "store: {etcd: {endpoints: [\"http://[]:1\"]}}", "store: {etcd: {endpoints: [\"http://e:+1\"]}}",
        "store: {etcd: {endpoints: [\"http://e:\"]}}", "store: {etcd: {endpoints: [\"http://[::1]x:1\"]}}",
        "store: {etcd: {endpoints: [e]}}\ncluster: {name: Shop}",
        "store: {etcd: {endpoints: [e]}}\ncluster: {name: \"\"}",
        "store: {etcd: {endpoints: [e]}}\ncluster: {node: a/b}",
        "store: {etcd: {endpoints: [e]}}\ncluster: {advertise: a}",
        "store: {etcd: {endpoints: [e]}}\ncluster: {fetch: stale}",
        "store: {etcd: {endpoints: [e]}}\ncluster: {maxUnverified: 25h}",
    ])
    func aWrongValueIsExactlyOneProblem(text: String) {
        let found = problems(text)
        let section = text.contains("cluster") ? "cluster." : "store.etcd."
        #expect(found.count == 1 && found[0].contains(section), "\(found)")
    }
}

@Suite struct ConfigurationTopicsTests {
    @Test func clientsAndServersTemplatesHaveATopicEachUnlessAnEntryReplacesIt() throws {
        let server = Scope(project: .demo, namespace: .firebaseServer)
        let client = Scope(project: .demo, namespace: .firebase)
        let pay = try load("topics: [{name: pay, scopes: [demo/firebase], keys: [pay_*]}]")
        #expect(pay.effectiveTopics.map(\.name.description) == ["PUSH_RC", "PUSH_RC_SERVER", "pay"])
        #expect(pay.effectiveTopics.prefix(2).map(\.scopes) == [[client], [server]])
        #expect(pay.topics[0].keys == [try KeyPattern("pay_*")])
        let replaced = try load("topics: [{name: PUSH_RC, scopes: [demo/firebase]}]")
        #expect(
            replaced.effectiveTopics == [
                TopicBinding(name: .pushRCServer, scopes: [server], keys: []),
                TopicBinding(name: .pushRC, scopes: [client], keys: []),
            ])
    }

    @Test func projectsBringTheirNamespaces() throws {
        let configuration = try load("projects: [{id: a, number: 1}, {id: b, number: 2, namespaces: [firebase]}]")
        #expect(configuration.scopes.map(\.description) == ["a/firebase", "a/firebase-server", "b/firebase"])
    }

    @Test func unknownScopesNameTheKnownOnesWhateverTheOrderInTheFile() {
        let text = """
            topics:
              - name: A
                scopes: [prod/firebase, demo/firebase]
            projects:
              - {id: prod, number: 1, namespaces: [firebase]}
            """
        let expected = "topics[0].scopes[1]: there is no scope demo/firebase; the scopes are prod/firebase"
        #expect(problems(text) == ["test.yaml:3: \(expected)"])
    }

    @Test(arguments: [
        "projects: [{id: a, number: 1}, {id: a, number: 2}]", "projects: [{id: a, number: 1}, {id: b, number: 1}]",
        "projects: [{id: a, number: 7}, {id: \"7\", number: 8}]", "projects: [{id: a}]", "projects: [{number: 1}]",
        "projects: [{id: a b, number: 1}]", "projects: [{id: a, number: 1, namespaces: []}]",
        "projects: [{id: a, number: 1, namespaces: [x, x]}]", "projects: [{id: a, number: 1, namespaces: x}]",
        "topics: [{name: A, scopes: [demo/firebase]}, {name: A, scopes: [demo/firebase]}]",
        "topics: [{name: A, scopes: []}]", "topics: [{name: A}]", "topics: [{name: a b, scopes: [demo/firebase]}]",
        "topics: [{name: A, scopes: [demo]}]", "topics: [{name: A, scopes: [demo/firebase, demo/firebase]}]",
        "topics: [{name: A, scopes: [demo/firebase], keys: [\"a b\"]}]", "topics: [{name: A, scopes: [demo/a/b]}]",
    ])
    func aWrongEntryIsExactlyOneProblem(text: String) {
        let found = problems(text)
        #expect(found.count == 1 && found[0].hasPrefix("test.yaml:1: "), "\(found)")
    }
}
