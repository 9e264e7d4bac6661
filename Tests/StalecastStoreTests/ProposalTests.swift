import GRDB
import StalecastStore
import StalecastTemplate
import StalecastTestSupport
import StalecastWire
import Testing

/// Tests that a proposal waits, survives, and becomes a version once, over the version it was made over.
@Suite struct ProposalTests {
    private let directory: TemporaryDirectory
    private let clock = TestClock()
    private let ada = Proposal.Person(principal: "key:ada", user: UpdateUser(name: "Ada"))
    private let bob = Proposal.Person(principal: "key:bob", user: UpdateUser(name: "Bob"))

    init() throws { directory = try TemporaryDirectory() }

    private func open() throws -> TemplateStore { try TemplateStore.make(directory, clock: clock) }

    @discardableResult
    private func propose(_ value: String, _ store: TemplateStore, in scope: Scope = .demo) async throws -> Proposal {
        try await store.propose(
            Publish(scope: scope, template: .greeting(value), precondition: .any, description: value, isUrgent: true),
            by: ada)
    }

    @Test func anApprovedProposalIsItsAuthorsVersion() async throws {
        let store = try open()
        try await store.put("one")
        let proposal = try await propose("two", store)
        #expect(proposal.number == 1 && proposal.base == 1 && proposal.changedKeys == ["greeting"])
        let version = try await store.approve(1, of: .demo, by: bob, allowsOwn: false)
        #expect(version.version == 2 && version.template.greeting == "two" && version.change.notes.isUrgent)
        #expect(version.metadata.updateUser.name == "Ada, approved by Bob" && version.metadata.description == "two")
        let found = try #require(try await store.proposal(1, of: .demo))
        #expect(found.proposal.state == .approved && found.template == nil)
        #expect(found.proposal.decision?.by == bob && found.proposal.decision?.version == 2)
    }

    @Test func theAuthorCannotApproveUnlessThatIsAllowed() async throws {
        let store = try open()
        try await propose("one", store)
        #expect(
            await storeError { try await store.approve(1, of: .demo, by: ada, allowsOwn: false) } == .ownProposal(1))
        #expect(try await store.current(.demo) == nil)
        #expect(try await store.approve(1, of: .demo, by: ada, allowsOwn: true).version == 1)
    }

    @Test func ofManyWhoApproveAtOnceOnePublishes() async throws {
        let store = try open()
        try await propose("one", store)
        let outcomes = await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    await storeError { try await store.approve(1, of: .demo, by: bob, allowsOwn: false) } == nil
                }
            }
            return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(outcomes == 1)
        #expect(try await store.numbers() == [1])
    }

    @Test func anotherVersionInBetweenMakesItStale() async throws {
        let store = try open()
        try await propose("one", store)
        try await store.put("other")
        #expect(
            await storeError { try await store.approve(1, of: .demo, by: bob, allowsOwn: false) }
                == .versionMismatch(expected: 0, found: 1))
        #expect(try await store.proposal(1, of: .demo)?.proposal.state == .open)
        try await store.reject(1, of: .demo, by: ada, reason: "late")
        #expect(
            await storeError { try await store.approve(1, of: .demo, by: bob, allowsOwn: false) }
                == .notOpen(1, .rejected))
        #expect(
            await storeError { try await store.approve(2, of: .demo, by: bob, allowsOwn: false) } == .unknownProposal(2)
        )
    }

    @Test func itSurvivesARestartAndIsInABackup() async throws {
        var store = try open()
        try await store.put("one")
        try await propose("two", store)
        store.close()
        store = try open()
        let backup = directory.file("backup")
        try TemplateStore.backup(directory: directory.path, to: backup)
        #expect(try await store.approve(1, of: .demo, by: bob, allowsOwn: false).version == 2)
        store.close()
        let elsewhere = try TemporaryDirectory()
        _ = try TemplateStore.restore(from: backup, to: elsewhere.path)
        let restored = try TemplateStore.make(elsewhere, clock: clock)
        let version = try await restored.approve(1, of: .demo, by: bob, allowsOwn: false)
        #expect(version.template.greeting == "two")
    }

    @Test func anOldOneExpiresAndItsContentGoes() async throws {
        let store = try open()
        try await propose("one", store)
        clock.advance(days: 29)
        #expect(try await store.proposal(1, of: .demo)?.proposal.state == .open)
        clock.advance(days: 1)
        #expect(try await store.proposal(1, of: .demo)?.proposal.state == .expired)
        #expect(try await store.proposals(of: .demo, isOpen: true, limit: 10).isEmpty)
        #expect(
            await storeError { try await store.approve(1, of: .demo, by: bob, allowsOwn: false) }
                == .notOpen(1, .expired))
        try await propose("two", store)
        #expect(try await store.proposal(1, of: .demo)?.template == nil)
        #expect(try await store.proposals(of: .demo, isOpen: false, limit: 10).map(\.number) == [2, 1])
    }

    @Test func aThousandAreBounded() async throws {
        var store = try open()
        for _ in 0..<Proposal.mostOpen { try await propose("x", store) }
        #expect(await storeError { try await propose("x", store) } == .tooManyProposals(Proposal.mostOpen))
        #expect(try await propose("x", store, in: .demoServer).number == 1)
        try await store.reject(1, of: .demo, by: bob, reason: "")
        store.close()
        // Many more settled ones, without a commit for each.
        let database = try DatabaseQueue(path: directory.database)
        try await database.write { db in
            try db.execute(
                sql: """
                    WITH RECURSIVE later(number) AS (VALUES (101) UNION ALL SELECT number + 1 FROM later LIMIT 900)
                    INSERT INTO proposal SELECT project, namespace, later.number, state, createTime, record, content
                    FROM proposal, later WHERE state = 'REJECTED'
                    """)
        }
        try database.close()
        store = try open()
        for number in Int64(2)...4 {
            try await store.reject(number, of: .demo, by: bob, reason: "")
            try await propose("x", store)
        }
        let all = try await store.proposals(of: .demo, isOpen: false, limit: 10_000)
        #expect(all.count == Proposal.mostOpen - 1 + Proposal.mostSettled && all.first?.number == 1003)
    }
}
