import StalecastWire
import Testing
import stalecast

@Suite struct ClusterReadingTests {
    private static let status: JSONValue = [
        "name": "shop", "node": "a", "epoch": "5qk3", "head": "17", "ready": true, "whole": true,
        "unverifiedSeconds": .null,
        "charter": ["format": 1, "minimumVersion": 1, "prunedBelow": "5", "frozen": false],
        "etcd": [
            ["endpoint": "http://10.0.0.11:2379", "version": "3.4.23", "isLeader": true],
            ["endpoint": "http://10.0.0.12:2379", "error": "connection refused"],
        ],
        "nodes": [
            ["id": "a", "version": "1.0", "head": "17", "configurationHash": "h1", "subscribers": 12],
            ["id": "b", "version": "1.0", "head": "16", "configurationHash": "h2", "subscribers": 3],
        ],
    ]

    private static func page(_ changes: JSONObject = [:]) -> String {
        guard case .object(var object) = status else { return "" }
        for (key, value) in changes.members { object[key] = value }
        return ClusterReading(.object(object)).lines(Palette(isOn: false), width: nil).joined(separator: "\n")
    }

    @Test func aPageHasTheLogTheMembersAndTheNodes() {
        let page = Self.page()
        for words in [
            "node a of cluster shop: ready\n", "epoch 5qk3, head 17, format 1 (nodes need 1), pruned below 5",
            "http://10.0.0.11:2379  3.4.23   leader", "connection refused", "2 different configurations",
        ] {
            #expect(page.contains(words), "\(words) is not in\n\(page)")
        }
    }

    @Test func aNodeThatIsBehindAndOnesThatDifferSaySo() {
        let nodes: JSONValue = [
            ["id": "a", "configurationHash": "h1"],
            ["id": "b", "configurationHash": "h2", "differs": ["control.token", "topics"]],
        ]
        let page = Self.page(["logHead": "20", "nodes": nodes, "etcd": [["endpoint": "e", "finding": "too old"]]])
        #expect(page.contains("head 17 of 20,") && page.contains("too old"), "\(page)")
        #expect(page.contains("2 different configurations; from this one differ b in control.token, topics"), "\(page)")
        #expect(!Self.page(["logHead": "17"]).contains(" of 17"))
        #expect(Self.page(["unverifiedSeconds": .double(4.2)]).contains(": ready\n"), "nodes look each 5 s")
    }

    @Test func aPageSaysHowFarAndHowOldEachNodeIs() {
        let page = Self.page([
            "logHead": "17",
            "nodes": [
                ["id": "a", "head": "17", "etcdDelaySeconds": 0],
                ["id": "fra1", "role": "edge", "head": "15", "etcdDelaySeconds": .double(0.31), "subscribers": 500],
                ["id": "fra2", "role": "edge", "head": "17", "unverifiedSeconds": 48],
            ],
            "gone": [["id": "fra3", "role": "edge", "head": "9", "goneSeconds": 240, "advertise": "https://fra3"]],
        ])
        let rows = page.split(separator: "\n")
        for (id, words) in [
            ("a ", ["< 1 ms", "current"]), ("fra1", ["310 ms", "2 behind", "500"]),
            ("fra2", ["not confirmed for 48.0 s"]),
            ("fra3", ["edge", "cut off or ended 240.0 s ago", "https://fra3"]),
        ] {
            let row = rows.first { $0.hasPrefix(id) } ?? ""
            for word in words { #expect(row.contains(word), "\(word) is not in \(row)") }
        }
    }

    @Test func aCopyThatIsNotKnownIsNotCurrent() {
        func copies(_ changes: JSONObject = [:]) -> [String] {
            func node(_ id: String, _ head: String, _ delay: Double? = nil) -> JSONValue {
                var node: JSONObject = [
                    "id": .string(id), "version": "1", "head": .string(head), "configurationHash": "h",
                    "subscribers": 1,
                ]
                node["etcdDelaySeconds"] = delay.map { .double($0) }
                return .object(node)
            }
            let nodes = [node("a", "17", 0.01), node("b", "17", 0.01), node("old", "17"), node("older", "16")]
            var all: JSONObject = ["logHead": "17", "nodes": .array(nodes)]
            for (key, value) in changes.members { all[key] = value }
            let rows = Self.page(all).split(separator: "\n")
            return ["a ", "b ", "old ", "older "].map { id in
                let row = rows.first { $0.hasPrefix(id) } ?? ""
                return ["current", "1 behind"].first { row.contains($0) } ?? (row.contains("?") ? "?" : "")
            }
        }
        #expect(copies() == ["current", "current", "?", "1 behind"], "older programs do not say what is not confirmed")
        #expect(copies(["problem": "etcd does not answer"]) == ["current", "?", "?", "?"])
    }

    @Test func anEdgeHasAnotherHashAndDiffersWhereItSaysSo() {
        func nodes(differing parts: JSONValue) -> JSONValue {
            [
                ["id": "a", "configurationHash": "h1"], ["id": "b", "configurationHash": "h1"],
                ["id": "e", "role": "edge", "configurationHash": "h2", "differs": parts],
            ]
        }
        let page = Self.page(["nodes": nodes(differing: [])])
        #expect(!page.contains("different configurations") && page.contains("edge"), "\(page)")
        #expect(Self.page(["nodes": nodes(differing: ["topics"])]).contains("differ e in topics"))
        let core: JSONValue = [
            ["id": "a", "configurationHash": "h1", "differs": ["topics"]],
            ["id": "e", "role": "edge", "configurationHash": "h2"],
        ]
        let own = Self.page(["node": "e", "role": "edge", "nodes": core])
        #expect(own.hasPrefix("edge e of cluster shop") && own.contains("differ a in topics"), "\(own)")
    }

    @Test func whatIsNotWellStandsInTheFirstLine() {
        #expect(Self.page(["ready": false]).hasPrefix("node a of cluster shop: not ready\n"))
        #expect(Self.page(["whole": false]).contains("versions are still coming"))
        #expect(Self.page(["unverifiedSeconds": 12]).contains("without word from etcd for 12"))
        #expect(Self.page(["charter": ["frozen": true]]).contains("nothing can be published"))
    }

    private static let shapes: [JSONValue] = [
        [:], ["etcd": 1, "nodes": ["x", .null], "charter": "x", "unverifiedSeconds": "x"],
        ["nodes": [["head": .double(1.5), "subscribers": -1, "id": [:]]]],
    ]

    @Test(arguments: shapes)
    func anAnswerOfAnyShapeIsAPage(status: JSONValue) {
        #expect(ClusterReading(status).lines(Palette(isOn: false)).count >= 3)
    }

    @Test func whatOthersWroteCannotPlayWithTheTerminal() {
        let nasty: JSONValue = "\u{1B}]0;pwned\u{7}\u{9B}31m\u{202E}red\r\n"
        let status: JSONValue = [
            "name": nasty, "node": nasty, "epoch": nasty, "problem": nasty, "ready": true,
            "etcd": [["endpoint": nasty, "version": nasty, "error": nasty]],
            "nodes": [["id": nasty, "advertise": nasty, "version": nasty, "configurationHash": nasty]],
        ]
        let text = ClusterReading(status).lines(Palette(isOn: false)).joined()
        #expect(text.contains("red"))
        let bad = "\u{1B}\u{7}\u{9B}\u{202E}\r\n".unicodeScalars
        #expect(!text.unicodeScalars.contains { bad.contains($0) }, "\(text)")
    }
}
