import StalecastRecords
import StalecastTestRecords
import StalecastTestSupport
import StalecastWire
import Synchronization
import Testing

/// Nodes of one cluster, over records in memory.
@Suite(.timeLimit(.minutes(5))) struct MembershipTests {
    private final class Node: Sendable {
        let membership: Membership
        let told = Differences()
        private let task = Mutex<Task<Void, Never>?>(nil)

        init(
            _ name: String, _ records: MemoryRecords, isEdge: Bool = false, settings: [String: String] = ["store": "1"]
        ) {
            membership = Membership(
                name, isEdge: isEdge, records, clock: { .seconds(1_000_000) }, report: { [told] in told.add($0) })
            membership.update {
                ($0.settings, $0.configurationHash, $0.isEdge) = (settings, "\(settings)", isEdge)
                $0.addresses["control"] = "\(name):8081"
                $0.topics = [.pushRC: 7]
            }
            task.withLock { [membership] in $0 = Task { await membership.run() } }
        }

        func end() async {
            let task = task.withLock { $0.take() }
            task?.cancel()
            await task?.value
        }

        deinit { task.withLock { $0?.cancel() } }
    }

    private final class Differences: Sendable {
        private let state = Mutex<[Membership.Difference]>([])

        var all: [Membership.Difference] { state.withLock { $0 } }

        func add(_ difference: Membership.Difference) { state.withLock { $0.append(difference) } }
    }

    @Test func eachNodeKnowsTheOthers() async throws {
        let records = MemoryRecords()
        let (a, b) = (Node("a", records), Node("b", records))
        let edge = Node("e", records, isEdge: true)
        for node in [a, b, edge] { try await eventually { node.membership.counts.all == 3 } }
        #expect(a.membership.others == ["b", "e"])
        #expect(a.membership.coreAddresses == ["a:8081", "b:8081"], "an edge takes no changes")
        #expect(a.membership.subscribersElsewhere(.pushRC) == 14)
        #expect(a.membership.json.map { $0["id"]?.string } == ["a", "b", "e"])
        #expect(a.membership.json.map { $0["role"]?.string } == [nil, nil, "edge"])
        await b.end()
        // Its record goes with it, not only with its lease.
        try await eventually { a.membership.others == ["e"] }
        for node in [a, edge] { await node.end() }
    }

    @Test func aNodeThatIsConfiguredOtherwiseIsReportedOnce() async throws {
        let records = MemoryRecords()
        let a = Node("a", records, settings: ["store": "1", "topics": "2"])
        let b = Node("b", records, settings: ["store": "1", "topics": "3"])
        try await eventually { !a.told.all.isEmpty && !b.told.all.isEmpty }
        #expect(a.told.all.map(\.node) == ["b"] && a.told.all.map(\.settings) == [["topics"]])
        #expect(a.membership.counts == (2, 1))
        // Something else of it changes.
        b.membership.update { $0.isLeaving = true }
        try await eventually { await a.membership.informer.record(RecordName(NodeRecord.kind, "b"))?.isLeaving == true }
        #expect(a.told.all.count == 1)
        for node in [a, b] { await node.end() }
    }

    @Test func assignmentsAreHandedOverBeforeTheNodeGoes() async throws {
        let records = MemoryRecords()
        let a = Node("a", records)
        let log = Mutex<[String]>([])
        a.membership.setAssignments([
            "work": { _ in
                log.withLock { $0.append("begin") }
                await untilCancelled()
                log.withLock { $0.append("end") }
            }
        ])
        let (work, node) = (RecordName(AssignmentService.kind, "work"), RecordName(NodeRecord.kind, "a"))
        try await eventually { log.withLock { $0 } == ["begin"] }
        #expect(try await records.records([work, node]).records.count == 2)
        await a.end()
        #expect(log.withLock { $0 } == ["begin", "end"])
        #expect(try await records.records([work, node]).records.isEmpty)
    }
}

extension SharedRecord {
    fileprivate var isLeaving: Bool { NodeRecord(value).isLeaving }
}
