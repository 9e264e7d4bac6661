import StalecastWire
import Testing
import stalecast

@Suite struct TopicsTests {
    private func page(_ subscribers: JSONValue) -> [String] {
        let topic: JSONValue = ["name": "PUSH_RC", "scopes": ["demo/firebase"], "subscribers": subscribers]
        return TopicsReading([topic]).lines(Palette(isOn: false), width: nil)
    }

    @Test func subscribersOfOtherNodesHaveAColumnInAClusterOnly() {
        let cluster = page(["sse": 2, "poll": 1, "otherNodes": 40])
        #expect(cluster[0].contains("OTHER NODES") && cluster[1].contains(" 40 "), "\(cluster)")
        #expect(page(["sse": 2, "poll": 1, "otherNodes": 0])[0].contains("OTHER NODES"))
        let alone = page(["sse": 2, "poll": 1])
        #expect(!alone[0].contains("OTHER") && alone[1].hasPrefix("PUSH_RC        2      1"), "\(alone)")
    }
}
