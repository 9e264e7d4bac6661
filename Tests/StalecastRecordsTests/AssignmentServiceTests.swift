import StalecastRecords
import StalecastTestRecords
import StalecastTestSupport
import Synchronization
import Testing

/// The driver of assignments over records in memory; times of leases stand still unless the test moves them.
@Suite(.timeLimit(.minutes(5))) struct AssignmentServiceTests {
    /// Orders that a node's worker got, and a gate before its `finish` ends.
    private final class Work: Sendable {
        private let state = Mutex((owned: [String: AssignmentLease.Token](), lost: [String](), isOpen: true))

        var owned: [String: AssignmentLease.Token] { state.withLock { $0.owned } }
        var lost: [String] { state.withLock { $0.lost } }
        func open(_ isOpen: Bool) { state.withLock { $0.isOpen = isOpen } }

        var worker: AssignmentService.Worker {
            AssignmentService.Worker { name, token in
                self.state.withLock { $0.owned[name] = token }
            } finish: { name, _ in
                // Cancelled: nothing waits for it any more.
                try? await eventually { self.state.withLock { $0.isOpen } }
                self.state.withLock { $0.owned[name] = nil }
            } lost: { name in
                self.state.withLock {
                    $0.owned[name] = nil
                    $0.lost.append(name)
                }
            }
        }
    }

    private struct Node {
        let work = Work()
        let board: Informer
        let assignments: AssignmentService
        let tasks: [Task<Void, Never>]

        init(_ name: String, _ records: MemoryRecords, _ time: @escaping @Sendable () -> Duration) async throws {
            let board = Informer(records, pause: .milliseconds(1))
            let assignments = AssignmentService(
                node: name, instance: "1", board, records,
                lease: AssignmentLease(lifetime: .seconds(45), renewal: .milliseconds(20)), calm: .seconds(10),
                clock: time,
                worker: work.worker)
            assignments.want(Set((0..<8).map { "d\($0)" }))
            self.board = board
            self.assignments = assignments
            tasks = [Task { await board.run() }, Task { await assignments.run() }]
            _ = try await records.put([], to: RecordName(NodeRecord.kind, name), over: nil, lease: nil)
        }
    }

    @Test func assignmentsMoveAndAreHandedOver() async throws {
        let records = MemoryRecords()
        let time = Mutex(Duration.zero)
        let clock: @Sendable () -> Duration = { time.withLock { $0 } }
        let a = try await Node("a", records, clock)
        try await eventually { a.work.owned.count == 8 }
        #expect(a.assignments.permit("d0", .seconds(43)) == a.work.owned["d0"])
        #expect(a.assignments.permit("d0", .seconds(44)) == nil && a.assignments.owned("other") == nil)

        let b = try await Node("b", records, clock)
        try await Task.sleep(for: .milliseconds(20))
        #expect(a.work.owned.count == 8 && b.work.owned.isEmpty)
        // What is under way at a is waited for, and no more begins there.
        a.work.open(false)
        time.withLock { $0 += .seconds(11) }
        try await eventually { (0..<8).contains { a.assignments.owned("d\($0)") == nil } }
        try await Task.sleep(for: .milliseconds(20))
        #expect(a.work.owned.count == 8 && b.work.owned.isEmpty)
        a.work.open(true)
        try await eventually { !b.work.owned.isEmpty && a.work.owned.count + b.work.owned.count == 8 }
        #expect(Set(a.work.owned.keys).isDisjoint(with: b.work.owned.keys))

        // What an owner keeps, its successor reads; a deposed one keeps nothing.
        let (moved, token) = try #require(b.work.owned.first)
        #expect(try await b.assignments.keep([1], of: moved, token: token))
        #expect(try await !a.assignments.keep([2], of: moved, token: token - 1))
        #expect(try await a.assignments.kept(of: moved) == [1])

        b.assignments.stop()
        await b.tasks[1].value
        #expect(b.work.owned.isEmpty)
        let record = try await records.records([RecordName(NodeRecord.kind, "b")]).records.first
        _ = try await records.remove(RecordName(NodeRecord.kind, "b"), at: record?.revision ?? 0)
        try await eventually { a.work.owned.count == 8 }
        #expect(a.work.owned[moved].map { $0 > token } == true && a.work.lost.isEmpty)
        for task in a.tasks + b.tasks { task.cancel() }
    }

    @Test func withoutTheStoreAnAssignmentEndsByTheClock() async throws {
        let records = MemoryRecords()
        let time = Mutex(Duration.zero)
        let a = try await Node("a", records, { time.withLock { $0 } })
        try await eventually { a.work.owned.count == 8 }
        records.setAway(true)
        time.withLock { $0 += .seconds(30) }
        #expect(a.assignments.permit("d0", .seconds(13)) != nil && a.assignments.permit("d0", .seconds(14)) == nil)
        #expect(a.work.lost.isEmpty)
        time.withLock { $0 += .seconds(16) }
        try await eventually { a.work.lost.count == 8 }
        #expect(a.assignments.owned("d0") == nil)
        // It comes back: what this node does not know of is removed and taken anew.
        records.setAway(false)
        try await eventually { a.work.owned.count == 8 }
        for task in a.tasks { task.cancel() }
    }
}
