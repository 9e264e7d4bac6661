import StalecastRecords
import StalecastTestRecords
import StalecastTestSupport
import StalecastWire
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(5))) struct PresenceTests {
    @Test func aRecordIsReadAsItWasWritten() throws {
        var record = NodeRecord()
        record.addresses = ["edge": "10.0.0.1:8080", "control": "10.0.0.1:8081"]
        record.version = "1.2.3"
        record.configurationHash = "abc"
        record.subscribers = 12
        record.topics = [.pushRC: 10, .pushRCServer: 2]
        record.instance = "i"
        record.settings = ["topics": "1", "store": "2"]
        record.isLeaving = true
        #expect(NodeRecord(record.encoded) == record)
        for (number, count) in (0..<300).enumerated() { record.topics[try TopicName("t\(number)")] = Int64(count) }
        let read = NodeRecord(record.encoded)
        #expect(read.topics.count == NodeRecord.maxTopics && read.topics.values.max() == 299)
        // A node whose record cannot be read counts as alive.
        for text in [
            "", "7", "{}", "{\"topics\":7,\"head\":\"x\",\"subscribers\":-5,\"addresses\":[],\"settings\":3}", "\u{0}",
        ] {
            #expect(NodeRecord(Array(text.utf8)) == NodeRecord())
        }
    }

    @Test func aRecordTellsOfMeasurementsThatHaveChangedMuch() {
        var record = NodeRecord()
        func noted(_ delay: Int?, _ age: Int?) -> NodeRecord {
            record.note(delay: delay.map { .milliseconds($0) }, unverified: age.map { .seconds($0) })
            #expect(NodeRecord(record.encoded) == record)
            return record
        }
        #expect(noted(nil, nil) == NodeRecord())
        #expect(noted(0, nil).etcdDelayMs == 0, "less than a millisecond")
        #expect(noted(4, nil).etcdDelayMs == 0)
        #expect(noted(300, nil).etcdDelayMs == 300)
        for other in [230, 370] { #expect(noted(other, nil).etcdDelayMs == 300) }
        #expect(noted(nil, 13).etcdDelayMs == 300 && record.unverifiedSeconds == 13)
        #expect(noted(220, 25).unverifiedSeconds == 13 && record.etcdDelayMs == 220)
        #expect(noted(220, 26).unverifiedSeconds == 26)
        #expect(noted(220, nil).unverifiedSeconds == nil)
    }

    @Test func nodesThatWentAwayAreRememberedForAnHour() {
        var nodes = LivingNodes()
        for id in ["a", "b"] { nodes.heard(NodeRecord(), of: id, now: .zero) }
        nodes.heard(nil, of: "a", now: .seconds(10))
        nodes.heard(nil, of: "unknown", now: .seconds(10))
        #expect(nodes.gone.mapValues(\.since) == ["a": .seconds(10)])
        nodes.heard(NodeRecord(), of: "a", now: .seconds(20))
        #expect(nodes.gone.isEmpty && nodes.nodes.count == 2)
        nodes.heard(nil, of: "a", now: .seconds(30))
        nodes.heard(nil, of: "b", now: .seconds(3631))
        #expect(nodes.gone.keys.sorted() == ["b"])
        #expect(nodes.gone(at: .seconds(7230)).keys.sorted() == ["b"])
        #expect(nodes.gone(at: .seconds(7231)).isEmpty, "no record needs to change for that")
    }

    @Test func ofManyNodesThatWentAwayTheNewestAreRemembered() {
        var nodes = LivingNodes()
        for number in 0...100 { nodes.heard(NodeRecord(), of: "n\(number)", now: .zero) }
        for number in 0...100 { nodes.heard(nil, of: "n\(number)", now: .seconds(number)) }
        let names = Set(nodes.gone.keys)
        #expect(names.count == 100 && !names.contains("n0") && names.contains("n100"))
    }

    @Test func nodesSayWhereTheyDiffer() {
        var (ours, theirs) = (NodeRecord(), NodeRecord())
        ours.settings = ["store": "1", "topics": "2", "webhooks": "3"]
        theirs.settings = ["store": "1", "topics": "0", "new": "4", "webhooks": "3"]
        #expect(ours.differences(from: theirs) == ["new", "topics"])
        #expect(theirs.differences(from: ours) == ["new", "topics"])
        #expect(ours.differences(from: ours) == [])
        #expect(ours.differences(from: NodeRecord()) == [], "an older program says nothing of that")
    }

    @Test func aNodeIsThereWhileItLives() async throws {
        let records = MemoryRecords()
        let board = Informer(records, pause: .milliseconds(1))
        let time = Mutex(Duration.zero)
        let version = Mutex("1")
        let isLeaving = Mutex(false)
        let presence = Presence(
            node: "a", instance: "i", board, records, lifetime: .milliseconds(10), spacing: .seconds(5),
            clock: { time.withLock { $0 } })
        let following = Task { await board.run() }
        let task = Task {
            await presence.run {
                var record = NodeRecord()
                record.version = version.withLock { $0 }
                record.isLeaving = isLeaving.withLock { $0 }
                return record
            }
        }
        let name = RecordName(NodeRecord.kind, "a")
        func stored() async -> NodeRecord? { await board.record(name).map { NodeRecord($0.value) } }
        try await eventually { await stored()?.version == "1" }
        // Not more often than every five seconds.
        version.withLock { $0 = "2" }
        try await Task.sleep(for: .milliseconds(20))
        #expect(await stored()?.version == "1")
        time.withLock { $0 = .seconds(6) }
        try await eventually { await stored()?.version == "2" }
        // That it leaves is said at once.
        isLeaving.withLock { $0 = true }
        try await eventually { await stored()?.isLeaving == true }
        let revision = records.revision
        time.withLock { $0 = .seconds(60) }
        try await Task.sleep(for: .milliseconds(20))
        #expect(records.revision == revision)

        // Its lease ends at the store: it is there again.
        records.change(secretly: name, to: nil)
        records.endWatches()
        try await eventually { await (board.record(name)?.revision).map { $0 > revision } == true }
        // Another node has the same id.
        var other = NodeRecord()
        other.instance = "other"
        let revisionNow = await board.record(name)?.revision
        _ = try await records.put(other.encoded, to: name, over: revisionNow, lease: nil)
        try await eventually { await stored()?.instance == "i" && presence.problem?.contains("node id a") == true }
        time.withLock { $0 += .seconds(60) }
        try await eventually { presence.problem == nil }

        task.cancel()
        await task.value
        #expect(try await records.records([name]).records.isEmpty)
        following.cancel()
    }
}
