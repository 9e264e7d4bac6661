import StalecastDaemon
import Testing

@Suite struct ConfigurationProblemsTests {
    @Test func allProblemsAreReportedTogetherInTheOrderOfTheirLines() {
        let text = """
            edge:
              hartbeat: 25s
              heartbeat: 25
              retry: 2h
              listen: 127.0.0.1:1
              listen: nonsense
              poll: 5s
            projects:
              - {id: demo, number: 0}
            log: {level: loud}
            """
        let environment = ["STALECAST_EDGE_THREADS": "many", "STALECAST_EDGE_LISTN": "x"]
        let found = problems(text, environment: environment, overrides: ConfigurationOverrides(control: "8081"))
        #expect(
            found == [
                "test.yaml:2: unknown key edge.hartbeat; the nearest known key is edge.heartbeat",
                "test.yaml:3: edge.heartbeat: \"25\" is no duration; "
                    + "write a whole number and its unit ms, s, m, h or d, such as 25s",
                "test.yaml:4: edge.retry: \"2h\" is out of range: 100ms to 10m",
                "test.yaml:5: listen is set again further down; keep one of the two",
                "test.yaml:6: edge.listen: \"nonsense\" has no port; write HOST:PORT, for example 127.0.0.1:8080",
                "test.yaml:7: edge.poll must be a mapping of keys, not a single value",
                "test.yaml:9: projects[0].number: \"0\" must be a whole number, 1 to 9223372036854775807",
                "test.yaml:10: log.level: \"loud\" must be trace, debug, info, notice, warning, error or critical",
                "STALECAST_EDGE_THREADS: edge.threads: \"many\" must be a whole number of threads, without a unit",
                "STALECAST_EDGE_LISTN: unknown variable; the nearest known one is STALECAST_EDGE_LISTEN",
                "--control: control.listen: \"8081\" has no port; write HOST:PORT, for example 127.0.0.1:8080",
            ])
    }

    @Test func aRemovedKeyNamesWhatSaysTheSameTodayAndFalseSaysNothing() {
        let text = "edge:\n  allowPublicBind: true\ncontrol: {allowPlaintextBind: false}\n"
        let sentence = "is gone: a listener outside loopback needs TLS, or"
        let rest = "true when a proxy in front speaks TLS"
        #expect(
            problems(text, environment: ["STALECAST_CONTROL_ALLOW_PLAINTEXT_BIND": "true"]) == [
                "test.yaml:2: edge.allowPublicBind \(sentence) edge.proxied: \(rest)",
                "STALECAST_CONTROL_ALLOW_PLAINTEXT_BIND: control.allowPlaintextBind \(sentence) control.proxied: \(rest)",
            ])
        let quiet = ["STALECAST_EDGE_ALLOW_PUBLIC_BIND": "false", "STALECAST_CONTROL_ALLOW_PLAINTEXT_BIND": ""]
        #expect(problems("edge: {allowPublicBind: false}", environment: quiet).isEmpty)
    }

    @Test(arguments: [
        ("maxVersions: 3", "maxVersions", "store.maxVersions"),
        ("edg: {}", "edg", "edge"),
        ("store: {maxversions: 3}", "store.maxversions", "store.maxVersions"),
        ("control: {heartbeat: 3s}", "control.heartbeat", "edge.heartbeat"),
        ("cluster: {etcd: {}}", "cluster.etcd", "store.etcd"), ("edge: {port: 8080}", "edge.port", "edge.listen"),
        ("edge: {tls: {cert: a}}", "edge.tls.cert", "edge.tls.certificate"),
        ("logLevel: debug", "logLevel", "log.level"),
        ("edge: {poll: {maxWaits: 3s}}", "edge.poll.maxWaits", "edge.poll.maxWait"),
        ("topics: [{name: A, scopes: [demo/firebase], key: [a]}]", "topics[0].key", "topics[0].keys"),
    ])
    func anUnknownKeyNamesTheNearestKnown(text: String, key: String, nearest: String) {
        #expect(problems(text) == ["test.yaml:1: unknown key \(key); the nearest known key is \(nearest)"])
    }

    @Test func aKeyPathIsNoKey() {
        #expect(problems("edge.listen: x") == ["test.yaml:1: edge.listen must be written as listen inside edge"])
    }

    @Test(arguments: [
        "edge: {heartbeat: [25s]}", "edge: {heartbeat: {a: 1}}", "edge: {heartbeat: ~}", "edge: {heartbeat: 1.5s}",
        "edge: {heartbeat: -1s}", "edge: {heartbeat: 1h30m}", "edge: {heartbeat: 99999999999999999999d}",
        "edge: {heartbeat: 9223372036854775807d}", "store: {minFreeSpace: 9223372036854775807TiB}",
        "edge: {heartbeat: 50ms}", "edge: {heartbeat: 11m}", "edge: {threads: 4s}", "edge: {threads: -1}",
        "edge: {threads: 1e1}", "edge: {threads: 0x10}", "edge: {maxTopicsPerStream: 0}", "edge: {streamEngine: yes}",
        "edge: {streamEngine: 1}", "edge: {maxHeadBytes: 16384}", "edge: {maxHeadBytes: 16kB}", "edge: []", "edge: x",
        "edge: {allowedOrigins: \"*\"}", "control: {staleETagStatus: 404}", "store: {minFreeSpace: 2048TiB}",
        "shutdown: {drain: 11s}", "data: \"\"", "data: [a]", "log: {format: JSON}", "[]", "text", "? [a]\n: b",
        "projects: []", "projects: {}", "projects: ~", "projects: [x]", "topics: x", "data: \"a\\0b\"",
    ])
    func aWrongValueIsExactlyOneProblemOnItsLine(text: String) {
        let found = problems(text)
        #expect(found.count == 1, "\(found)")
        #expect(found.first?.hasPrefix("test.yaml:1: ") == true, "\(found)")
    }

    @Test(arguments: [
        ("edge:\n  heartbeat: \"25s\n", 3), ("edge:\n\theartbeat: 25s", 2), ("a: 1\n---\nb: 2", 2),
        ("edge:\n  listen: [::1]:8080\n", 2), ("data: x\ndata: y\n", 1), ("data: &a x\n", 1), ("log: *x\n", 1),
        ("data: x\nlog: \u{7}", 2),
    ])
    func syntaxProblemsHaveALine(text: String, line: Int) {
        let found = problems(text)
        #expect(found.count == 1 && found[0].hasPrefix("test.yaml:\(line): "), "\(found)")
    }

    @Test func aQuoteThatIsNeverClosedIsNamedWithTheLineItBeginsOn() {
        #expect(problems("edge:\n  heartbeat: \"25s\n\n").first?.contains("from line 2 on") == true)
    }

    /// Products that wrap around to 1024 ms and to 0 bytes, both within range.
    @Test(arguments: ["edge: {heartbeat: 8825400613783079d}", "store: {minFreeSpace: 16777216TiB}"])
    func aProductThatOverflowsIsRefused(text: String) {
        #expect(problems(text).count == 1)
    }

    /// The undefined alias would be a second problem.
    @Test func nothingIsParsedOfAFileWithAnchors() {
        #expect(problems("data: &a x\nlog: *b\n").count == 1)
    }

    @Test func everythingIsSaidInOneRound() {
        let found = problems(
            """
            topics:
              - {name: A, scopes: [demo/nobody], kes: [x]}
              - {name: A, scopes: ["no scope"]}
            sources:
              scopes:
                - {kind: file, path: t, interval: 5}
                - {scope: demo/nobody, kind: http, url: x, timeout: 0}
                - {scope: demo/nobody, kind: http}
            webhooks:
              receivers:
                - {url: "ftp://a.example", mode: never, timeout: 1000d, project: none, topics: [B]}
            """)
        #expect(
            found.prefix(14).map { String($0.prefix(60)) } == [
                "test.yaml:2: unknown key topics[0].kes; the nearest known ke",
                "test.yaml:2: topics[0].scopes[0]: there is no scope demo/nob",
                "test.yaml:3: topics[1].name: topic A is already topics[0]; j",
                "test.yaml:3: topics[1].scopes[0]: \"no scope\" is no scope; wr",
                "test.yaml:6: sources.scopes[0] has no scope",
                "test.yaml:6: sources.scopes[0].interval: \"5\" is no duration;",
                "test.yaml:7: sources.scopes[1].timeout: \"0\" is no duration; ",
                "test.yaml:7: sources.scopes[1].url: the URL must begin with ",
                "test.yaml:7: sources.scopes[1].scope: there is no scope demo",
                "test.yaml:8: sources.scopes[2].scope: demo/nobody is already",
                "test.yaml:8: sources.scopes[2] has no url; name the document",
                "test.yaml:8: sources.scopes[2].scope: there is no scope demo",
                "test.yaml:11: webhooks.receivers[0] has no name",
                "test.yaml:11: webhooks.receivers[0].timeout: \"1000d\" is long",
            ], "\(found)")
        let rest = found.dropFirst(14).joined(separator: "\n")
        #expect(["[0].url ", "[0].mode ", "there is no project none"].allSatisfy { rest.contains($0) }, "\(rest)")
    }

    @Test(arguments: ["bogus: 1", "edge: {zzzzzzzz: 1}", "topics: [{name: A, scopes: [demo/firebase], wibble: 1}]"])
    func aKeyUnlikeAllOthersProposesNothing(text: String) {
        let found = problems(text)
        #expect(found.count == 1 && found[0].hasSuffix("`stalecast check-config --explain` prints every key there is"))
    }

    @Test func aTildeIsTheHomeDirectory() throws {
        let configuration = try load("data: ~/x\ncontrol: {tokenFile: ~/t}\n")
        #expect(configuration.data.hasSuffix("/x") && configuration.data.hasPrefix("/"))
        #expect(configuration.control.tokenFile?.hasPrefix("/") == true)
        #expect(problems("data: ~other/x\n").first?.contains("another user's home directory") == true)
    }

    @Test func whatAStartWouldRefuseIsRefusedHereInTheSameWords() throws {
        let text = """
            control: {tokenFile: /nonexistent/token}
            webhooks:
              receivers:
                - {name: a, url: "https://a.example/", secretFiles: [/nonexistent/secret]}
            sources:
              scopes:
                - {scope: demo/nobody, kind: file, path: t, triggerTokenFiles: [/nonexistent/other]}
                - {scope: demo/firebase, kind: file, path: t, triggerTokenFiles: [/nonexistent/trigger]}
            """
        let error = #expect(throws: ConfigurationProblems.self) {
            try ConfigurationLoader.load(text: text, file: "test.yaml", opensFiles: true)
        }
        let found = error?.problems.map(\.description) ?? []
        let files = ["token", "secret", "other", "trigger"].map { "/nonexistent/\($0)" }
        #expect(
            files.allSatisfy { file in found.contains { $0.contains(file) && $0.contains("cannot be read") } },
            "\(found)")
        #expect(found.first?.hasPrefix("test.yaml:1: control.tokenFile: ") == true)
    }

    @Test func anAmpersandInAValueIsNoAnchor() throws {
        let text = """
            sources:
              scopes: [{scope: demo/firebase, kind: http, url: "https://a.example/t?a=1&b=2"}]
            webhooks:
              receivers:
                - {name: a, url: https://b.example/hook?a=1&b=2, secretFiles: [a], description: R&D *x}
            """
        #expect(problems(text) == [])
        let found = problems("data: x\nlog: &a {level: info}\n")
        #expect(found.count == 1 && found[0].hasPrefix("test.yaml:2: anchors and aliases are not supported"))
    }

    /// The API counts in microseconds: spelled for it, these overflowed.
    @Test(arguments: ["timeout", "minInterval"], ["9000000000000000s", "100000d"])
    func anAbsurdDurationOfAReceiverIsRefused(key: String, text: String) {
        let receiver = "{name: shop, url: https://a.example/, secretFiles: [a], \(key): \(text)}"
        let found = problems("webhooks:\n  receivers:\n    - \(receiver)\n")
        #expect(found == ["test.yaml:3: webhooks.receivers[0].\(key): \"\(text)\" is longer than 1d"])
    }

    @Test func anAddressInBracketsWithoutQuotesGetsAHint() {
        #expect(problems("edge:\n  listen: [::1]:8080\n").first?.contains("must be in quotes") == true)
    }

    @Test func aTabIsCalledATab() {
        #expect(problems("edge:\n\tlisten: 127.0.0.1:8080\n").first?.contains("a tab") == true)
    }

    @Test func duplicatesDoNotHideOtherProblems() {
        let text = """
            "data": a
            data: b
            data: c
            edge: {retry: 1s, retry: 2s, "retry": 3s, 'heartbeat': 5}
            """
        let lines = problems(text).map { $0.split(separator: " ")[0] }
        let expected = ["test.yaml:1:", "test.yaml:2:", "test.yaml:4:", "test.yaml:4:", "test.yaml:4:"]
        #expect(lines.map(String.init) == expected)
    }

    @Test func foreignTextStaysOnOneLineOfBoundedLength() {
        let found = problems("edge: {\"a\\nb\\e[31m\": 1, heartbeat: \(String(repeating: "x", count: 10_000))}")
        #expect(found.count == 2)
        #expect(found.allSatisfy { $0.utf8.count < 1000 && $0.utf8.allSatisfy { $0 >= 0x20 } })
    }

    @Test func serviceLinksOfKubernetesAreNotOurs() {
        let environment = [
            "STALECAST_SERVICE_HOST": "10.0.0.1", "STALECAST_PORT": "tcp://10.0.0.1:8080",
            "STALECAST_EDGE_SERVICE_HOST": "10.0.0.1", "STALECAST_EDGE_SERVICE_PORT_HTTP": "8080",
            "STALECAST_EDGE_PORT_8080_TCP_ADDR": "10.0.0.1", "STALECAST_SOMETHING": "x", "PATH": "/bin",
        ]
        #expect(problems("", environment: environment).isEmpty)
    }
}
