import StalecastRecords
import StalecastTestRecords
import StalecastTestSupport
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(5))) struct EntryTableTests {
    private enum Refused: Error, Equatable { case away, contended }

    /// Copies of entries on a disk that may be full.
    private final class Disk: Sendable {
        let copies = Mutex<[String: [UInt8]]>([:])
        let isFull = Atomic(false)

        func take(_ record: SharedRecord) -> Bool {
            if isFull.load(ordering: .relaxed) { return false }
            copies.withLock { $0[record.name.id] = record.value }
            return true
        }

        subscript(_ id: String) -> [UInt8]? { copies.withLock { $0[id] } }
    }

    private struct Node {
        let table: EntryTable
        let disk = Disk()
        private let task: Task<Void, Never>

        init(_ records: MemoryRecords) {
            let informer = Informer(records, pause: .milliseconds(1))
            let table = EntryTable(informer, kind: "k", pause: .milliseconds(1))
            self.table = table
            task = Task { [disk] in
                async let following: Void = informer.run()
                await table.follow { await table.copyChanged { disk.take($0) } }
                await following
            }
        }

        func end() { task.cancel() }

        /// Appends a byte to an entry.
        ///
        /// - Parameter between: runs after each decision, before it is written.
        func append(
            _ byte: UInt8, to id: String, between: (Int) async throws -> Void = { _ in }
        ) async throws -> Int {
            var decisions = 0
            return try await table.change { () async throws -> (Int, EntryTable.Change) in
                decisions += 1
                let former = table[id]
                try await between(decisions)
                return (decisions, .put(id, (former?.value ?? []) + [byte], over: former?.revision))
            } failure: { error in
                error == nil ? Refused.contended : Refused.away
            }
        }
    }

    @Test func changesOfTwoNodesAllCountAndAreCopied() async throws {
        let records = MemoryRecords()
        let nodes = [Node(records), Node(records)]
        defer { for node in nodes { node.end() } }
        try await eventually { nodes.allSatisfy(\.table.isRead) }
        try await withThrowingTaskGroup { group in
            for number in 0..<10 {
                group.addTask { _ = try await nodes[number % 2].append(UInt8(number), to: "a") }
            }
            try await group.waitForAll()
        }
        for node in nodes {
            try await eventually { node.disk["a"].map { Set($0) } == Set<UInt8>(0..<10) }
            #expect(node.table["a"]?.value == node.disk["a"])
        }
    }

    @Test func aDecisionIsMadeAnewAfterAnotherNodesChange() async throws {
        let records = MemoryRecords()
        let (a, b) = (Node(records), Node(records))
        defer { for node in [a, b] { node.end() } }
        try await eventually { a.table.isRead && b.table.isRead }
        let decisions = try await a.append(1, to: "x") { number in
            if number == 1 { _ = try await b.append(2, to: "x") }
        }
        #expect(decisions == 2 && a.table["x"]?.value == [2, 1])
        await #expect(throws: Refused.contended) {
            _ = try await a.append(3, to: "x") { _ in _ = try await b.append(4, to: "x") }
        }
    }

    @Test func beforeTheFirstReadAndWithoutTheRecordsNothingIsChanged() async throws {
        let records = MemoryRecords()
        records.setAway(true)
        let node = Node(records)
        defer { node.end() }
        await #expect(throws: Refused.away) { _ = try await node.append(1, to: "x") }
        records.setAway(false)
        try await eventually { node.table.isRead }
        #expect(node.table.entries.isEmpty)
        records.setAway(true)
        await #expect(throws: Refused.away) { _ = try await node.append(1, to: "x") }
    }

    /// A watch tells of an entry once.
    @Test func whatCouldNotBeCopiedIsCopiedLater() async throws {
        let records = MemoryRecords()
        let node = Node(records)
        defer { node.end() }
        try await eventually { node.table.isRead }
        node.disk.isFull.store(true, ordering: .relaxed)
        _ = try await node.append(1, to: "x")
        #expect(node.table["x"]?.value == [1] && node.disk["x"] == nil)
        node.disk.isFull.store(false, ordering: .relaxed)
        try await eventually { node.disk["x"] == [1] }
    }
}
