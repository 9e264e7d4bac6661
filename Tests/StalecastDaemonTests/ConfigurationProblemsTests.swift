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

    @Test(arguments: [
        ("maxVersions: 3", "maxVersions", "store.maxVersions"),
        ("edg: {}", "edg", "edge"),
        ("store: {maxversions: 3}", "store.maxversions", "store.maxVersions"),
        ("control: {heartbeat: 3s}", "control.heartbeat", "edge.heartbeat"),
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

    @Test func anAddressInBracketsWithoutQuotesGetsAHint() {
        #expect(problems("edge:\n  listen: [::1]:8080\n").first?.contains("must be in quotes") == true)
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
