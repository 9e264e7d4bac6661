import NIOPosix
import StalecastEtcd
import StalecastRecords
import StalecastTestSupport
import Synchronization
import Testing

/// AssignmentService and nodes on real members: nodes that come, stop, die; members that die.
@Suite(.serialized, .enabled(if: Members.program != nil, "\(Members.advice)"))
struct EtcdAssignmentsTests {
    /// Assignments that a node has.
    private final class Owned: Sendable {
        private let state = Mutex<[String: AssignmentLease.Token]>([:])

        var tokens: [String: AssignmentLease.Token] { state.withLock { $0 } }
        var names: Set<String> { Set(tokens.keys) }
        func set(_ name: String, _ token: AssignmentLease.Token?) { state.withLock { $0[name] = token } }
    }

    private struct Node {
        let owned = Owned()
        let assignments: AssignmentService
        private let client: EtcdClient
        private let records: MortalRecords
        private let work: Task<Void, Never>
        private let others: [Task<Void, Never>]

        init(_ name: String, _ members: Members, lifetime: Duration = .seconds(4)) throws {
            client = try EtcdClient(
                EtcdConfiguration(members.endpoints.compactMap { EtcdEndpoint($0) }),
                on: MultiThreadedEventLoopGroup.singleton)
            records = MortalRecords(EtcdRecords(client, cluster: "one"))
            let informer = Informer(records)
            let began = ContinuousClock.now
            let clock: @Sendable () -> Duration = { began.duration(to: .now) }
            let instance = "\(UInt64.random(in: 0 ... .max))"
            let presence = Presence(
                node: name, instance: instance, informer, records, lifetime: .seconds(2), clock: clock)
            let owned = owned
            let assignments = AssignmentService(
                node: name, instance: instance, informer, records,
                lease: AssignmentLease(lifetime: lifetime, renewal: .seconds(1), margin: .milliseconds(100)),
                calm: .seconds(2), clock: clock,
                worker: AssignmentService.Worker(
                    begin: { owned.set($0, $1) }, finish: { name, _ in owned.set(name, nil) },
                    lost: { owned.set($0, nil) }))
            assignments.want(EtcdAssignmentsTests.names)
            self.assignments = assignments
            others = [Task { await informer.run() }, Task { await presence.run { NodeRecord() } }]
            work = Task { await assignments.run() }
        }

        func die() {
            records.die()
            end()
        }

        /// Stops as a daemon does.
        func stop() async {
            assignments.stop()
            await work.value
            end()
            await others[1].value
        }

        func end() {
            for task in others + [work] { task.cancel() }
        }
    }

    private static let names = Set((0..<64).map { "webhooks-\($0)" })

    private func wait(_ condition: () -> Bool) async throws -> Duration {
        let began = ContinuousClock.now
        try await eventually { condition() }
        return began.duration(to: .now)
    }

    /// Waits until the members have a leader: etcd then takes a write.
    private func writes(_ client: EtcdClient) async throws {
        let records = EtcdRecords(client, cluster: "probe")
        while true {
            do throws(LogError) {
                _ = try await records.put([1], to: RecordName("probe", "x"), over: nil, lease: nil)
                return
            } catch { try await Task.sleep(for: .milliseconds(20)) }
        }
    }

    private func serves(_ client: EtcdClient, _ member: Int) async throws -> Bool {
        do throws(EtcdFailure) { return try await client.status(of: member).leader != 0 } catch { return false }
    }

    @Test(.timeLimit(.minutes(5))) func assignmentsFollowTheNodes() async throws {
        let members = try Members(3, network: 31)
        let a = try Node("a", members)
        _ = try await wait { a.owned.names == Self.names }
        let b = try Node("b", members)
        let c = try Node("c", members)
        let all = [a, b, c]
        _ = try await wait {
            all.allSatisfy { $0.owned.names.count > 10 } && all.reduce(0) { $0 + $1.owned.names.count } == 64
        }
        #expect(all.reduce(Set()) { $0.union($1.owned.names) } == Self.names)

        let before = c.owned.tokens
        let kept = try #require(before.first)
        #expect(try await c.assignments.keep([3], of: kept.key, token: kept.value))
        await c.stop()
        let stopped = try await wait { a.owned.names.union(b.owned.names) == Self.names }
        #expect(a.owned.names.isDisjoint(with: b.owned.names))
        let tokens = a.owned.tokens.merging(b.owned.tokens) { $1 }
        #expect(before.allSatisfy { assignment, token in tokens[assignment] ?? 0 > token })
        #expect(try await a.assignments.kept(of: kept.key) == [3])
        #expect(try await !c.assignments.keep([4], of: kept.key, token: kept.value))

        b.die()
        let died = try await wait { a.owned.names == Self.names }
        print("64 duties of 3 nodes: one stopped, theirs were taken after \(stopped); one died: after \(died)")
        a.end()
    }

    /// Kills one member after the other: no assignment is lost, because leases outlive members.
    @Test(.timeLimit(.minutes(5))) func assignmentsOutliveMembers() async throws {
        let members = try Members(3, network: 32)
        let client = try EtcdClient(members.configuration, on: MultiThreadedEventLoopGroup.singleton)
        defer { client.close() }
        let a = try Node("a", members, lifetime: .seconds(45))
        _ = try await wait { a.owned.names == Self.names }
        let tokens = a.owned.tokens
        for member in 0..<3 {
            members.kill9(member)
            try await writes(client)
            try members.start(member)
            try await eventually { try await serves(client, member) }
            try await writes(client)
        }
        #expect(a.owned.tokens == tokens)
        #expect(a.assignments.owned("webhooks-1") == tokens["webhooks-1"])
        a.end()
    }
}
