import StalecastCluster
import StalecastRecords
import StalecastStore
import StalecastTestSupport
import StalecastWire
import Synchronization
import Testing

/// Nodes that only follow the log.
@Suite(.timeLimit(.minutes(5))) struct EdgeNodeTests {
    private let log = SharedMemoryLog()

    @Test func anEdgeHasWhatOthersPublishAndPublishesNothing() async throws {
        let core = try await Running("a", log)
        let edge = try await Running("e", log, isEdge: true)
        for value in ["1", "2", "3"] { _ = try await core.put(value) }
        try await eventually { edge.store.head() == 3 }
        guard case .failure(.unavailable(let sentence)) = await edge.published("4") else {
            Issue.record("an edge has published")
            return
        }
        #expect(sentence.contains("publish at a core node"))
        #expect(log.state.withLock(\.head).sequence == 3)
        #expect(try await edge.store.version(3, of: .shared)?.change == core.store.version(3, of: .shared)?.change)
    }

    /// A core node that knows of numbers given away says so in the log; an edge may not write, and gives none.
    @Test func anEdgeThatKnowsOfMoreNumbersChangesNothing() async throws {
        let core = try await Running("a", log)
        _ = try await core.put("1")
        let edge = try await Running("e", log, isEdge: true)
        var floors = NumberFloors()
        floors.raiseAll(to: 40)
        try await edge.store.raiseFloors(to: floors)
        let before = log.state.withLock(\.logMetadata)
        let again = try await Running("e", log, isEdge: true)
        try await again.store.raiseFloors(to: floors)
        for node in [edge, again] { #expect(await node.node.catchUp(within: .seconds(120)) == true) }
        #expect(log.state.withLock(\.logMetadata) == before)
        _ = try await core.put("2")
        try await eventually { edge.store.head() == 2 }
    }

    @Test func anEdgeWaitsForANewHistoryAndThenTakesIt() async throws {
        var core: Running? = try await Running("a", log)
        _ = try await core?.put("1")
        let snapshot = log.state.withLock(\.self)
        let edge = try await Running("e", log, isEdge: true)
        _ = try await core?.put("2")
        try await eventually { edge.store.head() == 2 }
        // The core node is lost and etcd is restored: only the edge has the second version.
        core = nil
        _ = log.state.withLock { $0.restore(snapshot) }
        let restored = log.state.withLock(\.logMetadata)
        try await eventually {
            _ = await edge.node.catchUp(within: .milliseconds(100))
            return edge.reports.contains {
                if case .cannotApply(let why) = $0 { why.contains("new-epoch") } else { false }
            }
        }
        #expect(log.state.withLock(\.logMetadata) == restored, "an edge begins no history")
        log.state.withLock { state in _ = state.amend(state.logMetadata, to: state.logMetadata.renewed(.random())) }
        try await eventually {
            edge.reports.contains { if case .foreignEpoch = $0 { true } else { false } }
        }
        #expect(!edge.reports.contains { $0 == .renewing })
    }

    @Test(arguments: [false, true])
    func aCopyThatWasCutOffGoesOnUnlessTheLogIsAnother(isRestored: Bool) async throws {
        var core: Running? = try await Running("a", log)
        for value in 0..<50 { _ = try await core?.put("\(value)") }
        let snapshot = log.state.withLock(\.self)
        for value in 50..<150 { _ = try await core?.put("\(value)") }
        core = nil
        let directory = try TemporaryDirectory()
        func open() throws -> TemplateStore {
            var configuration = StoreConfiguration(directory: directory.path)
            configuration.minFreeBytes = 0
            configuration.replica = .init(epoch: log.state.withLock(\.logMetadata.epoch))
            return try TemplateStore.open(configuration)
        }
        let first = try open()
        log.pagesLeft.withLock { $0 = 1 }
        await #expect(throws: LogError.self) { _ = try await ClusterNode.fill(first, from: log) }
        #expect(first.head() == 100)
        first.close()
        log.pagesLeft.withLock { $0 = nil }
        if isRestored {
            _ = log.state.withLock { $0.restore(snapshot) }
            core = try await Running("b", log)
            for value in 0..<60 { _ = try await core?.put("b\(value)") }
        }
        let second = try open()
        #expect(second.head() == 100, "what was copied is there")
        #expect(try await ClusterNode.fill(second, from: log) == !isRestored)
        #expect(isRestored || second.head() == 150)
        second.close()
        guard isRestored else { return }
        let third = try open()
        #expect(third.head() == 0, "it is of a history that is lost")
        #expect(try await ClusterNode.fill(third, from: log))
        #expect(third.head() == 110)
        third.close()
    }

    @Test func edgesOwnNothingAndMoveNothing() {
        var edge = NodeRecord()
        edge.isEdge = true
        #expect(NodeRecord(edge.encoded).isEdge && !NodeRecord(NodeRecord().encoded).isEdge)
        #expect(NodeRecord(edge.encoded).isLeaving, "programs that know no edges give it nothing either")
        var nodes = LivingNodes()
        nodes.heard(NodeRecord(), of: "a", now: .seconds(1))
        for number in 0..<20 { nodes.heard(edge, of: "e\(number)", now: .seconds(20)) }
        #expect((0..<64).allSatisfy { nodes.owner(of: "webhooks-\($0)") == "a" })
        #expect(nodes.isStable(for: .seconds(10), now: .seconds(20)))
        for number in 0..<20 { nodes.heard(nil, of: "e\(number)", now: .seconds(20)) }
        #expect(nodes.isStable(for: .seconds(10), now: .seconds(20)))
        nodes.heard(nil, of: "a", now: .seconds(21))
        nodes.heard(edge, of: "e", now: .seconds(21))
        #expect(nodes.owner(of: "contents") == nil, "no core node is left")
    }

    @Test func anEdgeIsComparedInWhatItHas() {
        var (core, edge, other) = (NodeRecord(), NodeRecord(), NodeRecord())
        core.settings = ["projects": "1", "webhooks": "2"]
        core.configurationHash = "c"
        edge.isEdge = true
        edge.settings = ["projects": "1"]
        edge.configurationHash = "e"
        #expect(!core.isConfigured(unlike: edge) && !edge.isConfigured(unlike: core))
        edge.settings["projects"] = "3"
        #expect(core.differences(from: edge) == ["projects"] && edge.isConfigured(unlike: core))
        other.settings = ["projects": "1"]
        other.configurationHash = "o"
        #expect(core.differences(from: other) == ["webhooks"] && core.isConfigured(unlike: other))
    }
}
