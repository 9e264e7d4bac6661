import StalecastDaemon
import StalecastEdge
import StalecastWire
import Testing

@Suite struct ConfigurationChecksTests {
    @Test func bothListenersNeedTheirOwnPort() {
        #expect(problems("control: {listen: 127.0.0.1:8080}").first?.contains("same port") == true)
        #expect(problems("edge: {listen: 127.0.0.1:0}\ncontrol: {listen: 127.0.0.1:0}").isEmpty)
    }

    @Test(arguments: ["0.0.0.0:1", "\"[::]:1\"", "192.168.1.1:1", "example.com:1", "\"[::ffff:10.0.0.1]:1\""])
    func aBindOutsideLoopbackNeedsItsFlag(address: String) {
        #expect(problems("edge: {listen: \(address)}").first?.contains("edge.allowPublicBind") == true)
        #expect(problems("edge: {listen: \(address), allowPublicBind: true}").isEmpty)
        #expect(problems("control: {listen: \(address)}").first?.contains("control.allowPlaintextBind") == true)
        #expect(problems("control: {listen: \(address), allowPlaintextBind: true}").isEmpty)
        let overrides = ConfigurationOverrides(allowPublicBind: true, allowPlaintextBind: true)
        #expect(problems("control: {listen: \(address)}", overrides: overrides).isEmpty)
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
                Configuration.Topic(name: .pushRCServer, scopes: [server], keys: []),
                Configuration.Topic(name: .pushRC, scopes: [client], keys: []),
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
