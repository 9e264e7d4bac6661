import StalecastCluster
import StalecastRecords
import StalecastStore
import StalecastTemplate
import StalecastWire
import Synchronization
import Testing

/// Releases of several nodes over one log: each step is an entry that all of them take as it stands there.
@Suite(.timeLimit(.minutes(5))) struct ClusterReleaseTests {
    private let log = SharedMemoryLog()

    private func start(_ names: String...) async throws -> [Running] {
        var nodes: [Running] = []
        for name in names { nodes.append(try await Running(name, log)) }
        return nodes
    }

    private func release(_ running: Running) async throws -> Release {
        #expect(await running.node.catchUp(within: .seconds(120)) == true)
        return try #require(running.store.release(of: .shared))
    }

    @Test func everyNodeTakesEachStepInOneOrder() async throws {
        let nodes = try await start("a", "b", "c")
        let heard = nodes.map { Heard(to: $0.store) }
        let (a, b, c) = (nodes[0], nodes[1], nodes[2])
        _ = try await a.put("1")
        #expect(try await b.stage("2").version == 2)
        _ = try await c.change(.pause, by: "carol")
        _ = try await a.change(.resume, by: "ada")
        _ = try await b.change(.promote, by: "bob")
        _ = try await c.store.rollBack(releaseOf: .shared, ReleaseDecision(by: "carol", reason: "crashes"))
        let first = try await release(a)
        for running in nodes {
            #expect(try await release(running) == first)
            #expect(running.store.head() == 6 && running.store.currentTemplates[.shared]?.version == 3)
        }
        #expect(first.state == .rolledBack && first.successor == 3)
        #expect(first.events.map(\.by) == ["test", "carol", "ada", "bob", "carol"])
        let steps: [ReleaseStep.Kind] = [.began, .noted, .noted, .reached, .rolledBack]
        for heard in heard {
            #expect(heard.steps.map(\.kind) == steps)
            #expect(heard.steps.map(\.sequence) == [2, 3, 4, 5, 6])
            #expect(heard.steps.map(\.stages) == [0..<1, 1..<1, 1..<1, 1..<3, 0..<3])
        }
        #expect(try await release(try await Running("late", log)) == first)
    }

    @Test func whatIsStagedEndsAnOpenReleaseByTheSameRulesAtEveryNode() async throws {
        let nodes = try await start("a", "b")
        await #expect(throws: StoreError.nothingToStageOver) { _ = try await nodes[0].stage("1") }
        _ = try await nodes[0].put("1")
        _ = try await nodes[0].stage("2")
        await #expect(throws: StoreError.releaseOpen(2)) { _ = try await nodes[1].put("3") }
        #expect(nodes[1].store.head() == 2)
        _ = try await nodes[1].publish("3") { $0.supersedes = true }
        #expect(try await release(nodes[0]).state == .superseded)
        _ = try await nodes[0].stage("4")
        _ = try await nodes[1].change(.promote, by: "bob")
        // All clients have it, so the next may take its place in stages.
        _ = try await nodes[0].stage("5") { $0.supersedes = true }
        let (fourth, fifth) = try await (
            nodes[1].store.releases(of: .shared, limit: 2)[1], release(nodes[1])
        )
        #expect(fourth.version == 4 && fourth.state == .superseded && fourth.successor == 5)
        #expect(fifth.version == 5 && fifth.base == 4 && fifth.state == .ramping)
    }

    @Test func ofTwoThatDecideOnOneStateOneSucceeds() async throws {
        let nodes = try await start("a", "b", "c")
        _ = try await nodes[0].put("1")
        _ = try await nodes[0].stage("2")
        for round in 0..<10 {
            let seen = try await release(nodes[round % 3])
            for running in nodes { #expect(try await release(running) == seen) }
            let action: ReleaseAction = seen.state == .paused ? .resume : .pause
            let won = await withTaskGroup(of: Bool.self) { group in
                for running in nodes {
                    group.addTask { (try? await running.change(action, by: running.node.name, seen: seen)) != nil }
                }
                return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
            }
            #expect(won == 1)
            #expect(try await release(nodes[0]).events.count == seen.events.count + 1)
        }
    }

    @Test func aNodeThatLostItsLeaseCommitsNoStep() async throws {
        let running = try await Running("a", log)
        _ = try await running.put("1")
        _ = try await running.stage("2", every: "1m")
        let seen = try await release(running)
        let assignment = "release/demo/firebase"
        let record = RecordName(AssignmentService.kind, assignment)
        running.later.time.withLock { $0 += .seconds(61) }
        log.state.withLock { $0.owners[record] = 8 }
        await #expect(throws: StoreError.self) {
            _ = try await running.change(.proceed, seen: seen, under: Ownership(assignment: assignment, token: 7))
        }
        await #expect(throws: StoreError.self) {
            _ = try await running.store.rollBack(
                releaseOf: .shared,
                ReleaseDecision(by: "gate:loss", seen: seen, under: Ownership(assignment: assignment, token: 7)))
        }
        #expect(try await release(running) == seen && running.store.head() == 2)
        let next = try await running.change(
            .proceed, seen: seen, under: Ownership(assignment: assignment, token: 8))
        #expect(next.stagesTold == 2 && running.store.head() == 3)
        // Its time has not come, so nothing is written.
        #expect(try await running.change(.proceed, by: Release.schedule) == next && running.store.head() == 3)
    }

    @Test func aReleaseOutlivesItsNodes() async throws {
        var nodes = try await start("a", "b")
        _ = try await nodes[0].put("1")
        _ = try await nodes[0].stage("2")
        _ = try await nodes[1].change(.pause, by: "bob")
        let before = try await release(nodes[0])
        nodes[0] = try await nodes[0].restarted(log) { _ = try await nodes[1].change(.resume, by: "bob") }
        let after = try await release(nodes[0])
        #expect(after.state == .ramping && after.events.count == before.events.count + 1)
        #expect(after == nodes[1].store.release(of: .shared))
        _ = try await nodes[0].change(.promote, by: "ada")
        #expect(try await release(nodes[1]).state == .baking)
    }

    @Test func aLogWithNodesOfAnOlderProgramTakesNoRelease() async throws {
        let running = try await Running("a", log)
        _ = try await running.put("1")
        log.state.withLock { state in
            var logMetadata = state.logMetadata
            logMetadata.minimumVersion = 1
            _ = state.amend(state.logMetadata, to: logMetadata)
        }
        #expect(await running.node.catchUp(within: .seconds(120)) == true)
        await #expect(throws: StoreError.clusterWithoutReleases) { _ = try await running.stage("2") }
        #expect(try await running.put("2").version == 2)
        #expect(try await running.node.upgrade().minimumVersion == LogMetadata.format)
        #expect(try await running.stage("3").version == 3)
    }

    @Test func theNewestStepOfAScopeStaysInTheLog() async throws {
        let running = try await Running("a", log)
        _ = try await running.put("1")
        _ = try await running.stage("2")
        for _ in 0..<3 {
            _ = try await running.change(.pause, by: "ada")
            _ = try await running.change(.resume, by: "ada")
        }
        _ = try await running.put("elsewhere", scope: .quiet)
        running.later.time.withLock { $0 += .seconds(7200) }
        #expect(try await running.node.prune() == 5)
        let left = log.state.withLock { $0.page(after: 0, limit: 100).entries.map(\.sequence) }
        #expect(left == [1, 2, 8, 9])
        let known = try await release(running)
        #expect(try await release(try await Running("late", log)) == known)
        _ = try await running.change(.promote, by: "ada")
        _ = try await running.publish("3") { $0.supersedes = true }
        running.later.time.withLock { $0 += .seconds(7200) }
        #expect(try await running.node.prune() == 2)
        #expect(try await release(try await Running("later", log)) == (try await release(running)))
    }

    /// The entry that ended it left the log: what came afterwards says that it did.
    @Test func aReleaseWhoseEndLeftTheLogIsOver() async throws {
        let running = try await Running("a", log)
        _ = try await running.put("1")
        _ = try await running.stage("2")
        _ = try await running.store.rollBack(releaseOf: .shared, ReleaseDecision(by: "ada"))
        _ = try await running.put("4")
        log.state.withLock { state in
            var logMetadata = state.logMetadata
            logMetadata.prunedBelow = 4
            _ = state.prune([3], under: state.logMetadata, to: logMetadata)
        }
        let late = try await release(try await Running("late", log))
        #expect(late.version == 2 && late.state == .superseded && late.successor == 4)
    }
}

/// Steps that a store announces.
private final class Heard: Sendable {
    private let all = Mutex<[ReleaseStep]>([])

    init(to store: TemplateStore) {
        store.setReleaseHandler { [weak self] step, version in
            #expect(version.change.sequence == step.sequence)
            self?.all.withLock { $0.append(step) }
        }
    }

    var steps: [ReleaseStep] { all.withLock(\.self) }
}

extension Running {
    fileprivate func publish(_ value: String, _ change: (inout Publish) throws -> Void) async throws -> StoredVersion {
        var publish = Publish(scope: .shared, template: try .greeting(value, .client), precondition: .any)
        try change(&publish)
        return try await store.publish(publish)
    }

    /// Publishes in stages that wait for an operator, unless `every` says otherwise.
    fileprivate func stage(
        _ value: String, every: String = "0s", _ change: (inout Publish) -> Void = { _ in }
    ) async throws -> StoredVersion {
        try await publish(value) { publish in
            let policy = try ReleasePolicy(json: ["stages": ["10%", "50%", "100%"], "every": .string(every)])
            publish.staged = Publish.Staged(policy, by: "test")
            change(&publish)
        }
    }

    fileprivate func change(
        _ action: ReleaseAction, by author: String = "test", seen: Release? = nil, under ownership: Ownership? = nil
    ) async throws -> Release {
        try await store.change(releaseOf: .shared, action, ReleaseDecision(by: author, seen: seen, under: ownership))
    }
}
