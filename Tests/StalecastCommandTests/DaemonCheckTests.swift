import StalecastDaemon
import StalecastWire
import Testing
import stalecast

@Suite("Findings about a running daemon")
struct DaemonCheckTests {
    /// 2026-11-26T07:00:00Z.
    private static let now = 1_795_676_400
    private static let well: JSONObject = [
        "version": "1.0", "startedAt": "2026-11-26T07:00:00Z", "notReady": [], "degraded": [],
        "configuration": ["loadedAt": "2026-11-26T07:00:00Z"], "store": ["health": "ok"],
        "webhooks": ["health": "ok", "states": ["active": 3, "failing": 0, "disabled": 0], "deadLetters": 0],
        "sources": [["project": "demo", "namespace": "firebase"]],
        "certificates": [
            ["listener": "edge", "certificate": "/etc/a.pem", "notAfter": "2027-01-26T07:00:00Z"]
        ],
    ]

    private func needing(_ changes: JSONObject, cluster: JSONValue? = nil, version: String = "1.0") -> [String] {
        var status = Self.well
        for (key, value) in changes.members { status[key] = value }
        return DaemonCheck(.object(status), cluster: cluster, version: version, now: Self.now).findings
            .filter { $0.command != nil }.map(\.sentence)
    }

    @Test func aDaemonThatIsWellNeedsNoOne() {
        #expect(needing([:]).isEmpty)
        #expect(DaemonCheck(.object(Self.well), version: "1.0", now: Self.now).findings.count == 7)
    }

    @Test func whatNeedsItsOperatorIsNamed() {
        #expect(needing(["notReady": ["the disk is full"]]) == ["the daemon is not ready: the disk is full"])
        #expect(needing([:], version: "1.1") == ["the daemon is 1.0, this program is 1.1"])
        #expect(needing(["configuration": ["problem": "line 3"]]).first?.hasSuffix("line 3") == true)
        #expect(
            needing(["configuration": ["waitingForRestart": ["edge.listen", "data"]]]) == [
                "these changes of the file wait for a restart: edge.listen, data"
            ])
        #expect(needing(["store": ["health": "readOnly"]]) == ["the store cannot be written: readOnly"])
        #expect(needing(["degraded": ["etcd is away"]]) == ["etcd is away"])
        #expect(
            needing(["webhooks": ["health": "ok", "states": ["failing": 2, "disabled": 1]]]) == [
                "2 webhooks fail, 1 were disabled"
            ])
        #expect(
            needing(["webhooks": ["health": "ok", "states": [:], "deadLetters": 5]]) == [
                "5 messages to webhooks were given up"
            ])
        let source: JSONValue = [
            "project": "demo", "namespace": "firebase", "error": ["reason": "unreachable", "message": "refused"],
        ]
        #expect(needing(["sources": [source]]) == ["1 of 1 sources fail, first demo/firebase: refused"])
        let ends = [
            ("2026-11-26T05:00:00Z", "has expired 2 hours ago, at 2026-11-26T05:00:00Z"),
            ("2026-12-09T07:00:00Z", "expires in 13 days, at 2026-12-09T07:00:00Z"),
        ]
        for (notAfter, end) in ends {
            let certificate: JSONValue = [
                "listener": "edge", "certificate": "/etc/a.pem", "notAfter": .string(notAfter),
            ]
            #expect(needing(["certificates": [certificate]]) == ["the certificate /etc/a.pem of edge \(end)"])
        }
    }

    private func commands(_ changes: JSONObject) -> [String] {
        var status = Self.well
        for (key, value) in changes.members { status[key] = value }
        return DaemonCheck(.object(status), version: "1.0", now: Self.now).findings.compactMap(\.command)
    }

    /// Each can be pasted as it is, and needs no other program than the system's.
    @Test func commandsNameTheirFiles() {
        #expect(
            commands(["configuration": ["problem": "line 3", "file": "/etc/my shop.yaml"]]) == [
                "stalecast check-config --config '/etc/my shop.yaml'"
            ])
        #expect(commands(["configuration": ["problem": "the token file is empty"]]) == ["stalecast status"])
        #expect(commands(["store": ["health": "the disk is full since 07:00"]]) == ["df -h; stalecast status"])
        #expect(commands(["store": ["health": "failed: an error"]]) == ["journalctl -u stalecast -n 50"])
    }

    @Test func refusedFilesOfAListenerAreNamedOnce() {
        let certificate: JSONValue = [
            "listener": "edge", "certificate": "/etc/a.pem", "notAfter": "2027-01-26T07:00:00Z",
            "refused": ["time": "2026-11-26T06:00:00Z", "problem": "/etc/a.pem holds no certificate"],
        ]
        #expect(
            needing(["certificates": [certificate, certificate]]) == [
                "newer certificate files of edge were refused at 2026-11-26T06:00:00Z: /etc/a.pem holds no certificate"
            ])
        #expect(commands(["certificates": [certificate]]) == ["stalecast tls check '/etc/a.pem'"])
        let others: [JSONValue] = ["/etc/b.pem", "/etc/a.pem", "/etc/a"].map { file in
            var other = certificate.object ?? [:]
            other["certificate"] = .string(file)
            return .object(other)
        }
        #expect(commands(["certificates": .array(others)]) == ["stalecast tls check '/etc/a.pem'"])
    }

    @Test func aNodeThatIsBehindIsNamed() {
        #expect(needing([:], cluster: ["name": "shop", "node": "a", "whole": true, "ready": true]).isEmpty)
        #expect(
            needing([:], cluster: ["name": "shop", "node": "a", "whole": false]) == [
                "node a of cluster shop is behind the log, or cannot reach it"
            ])
    }

    @Test func anAnswerOfAnotherShapeIsRead() {
        for status in [JSONValue.null, [], ["webhooks": 7, "sources": "x", "certificates": [1]]] {
            #expect(!DaemonCheck(status, version: "1.0", now: Self.now).findings.isEmpty)
        }
    }
}
