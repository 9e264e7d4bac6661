import StalecastControl
import StalecastDaemon
import StalecastStore
import StalecastTemplate
import StalecastTestSupport
import StalecastWire
import Synchronization
import Testing

/// A proposal with a time becomes a version then, once, or ends with a reason that an operator understands.
@Suite struct ScheduledPublishingTests {
    private final class Clock: Sendable {
        private let time = Mutex(Timestamp("2026-11-20T12:00:00Z")!)
        private let booted = Mutex(Duration.seconds(100))
        var now: Timestamp { time.withLock { $0 } }
        var sinceBoot: Duration { booted.withLock { $0 } }
        func advance(_ seconds: Int64) {
            booted.withLock { $0 += .seconds(seconds) }
            step(seconds)
        }
        /// Sets the clock, as an operator does: no time passes.
        func step(_ seconds: Int64) { time.withLock { $0 = $0.advanced(by: .seconds(seconds)) } }
    }

    private let directory: TemporaryDirectory
    private let audit: AuditLog
    private let clock = Clock()
    private let scope = Scope(project: .demo, namespace: .firebase)
    private let ada = Proposal.Person(principal: "bootstrap", user: UpdateUser(name: "Ada"))

    init() throws {
        directory = try TemporaryDirectory()
        audit = try AuditLog(directory: directory.path)
    }

    private func open(maxWaitingPublishes: Int = 64) throws -> TemplateStore {
        var configuration = StoreConfiguration(directory: directory.path)
        configuration.minFreeBytes = 0
        configuration.maxWaitingPublishes = maxWaitingPublishes
        configuration.now = { [clock] in clock.now }
        return try TemplateStore.open(configuration) { _ in }
    }

    private func publishing(
        _ store: TemplateStore, objection: @escaping @Sendable (Proposal) -> String? = { _ in nil }
    ) -> ScheduledPublishing {
        ScheduledPublishing(
            store, AuditCopies(audit, store), now: { [clock] in clock.now }, sinceBoot: { [clock] in clock.sinceBoot },
            objection: objection)
    }

    private func publish(_ value: String) throws -> Publish {
        let text = #"{"parameters":{"greeting":{"defaultValue":{"value":"\#(value)"}}}}"#
        let template = try Template(stored: JSONValue.parse(Array(text.utf8)))
        return Publish(scope: scope, template: template, precondition: .any, description: value)
    }

    private func propose(_ value: String, in seconds: Int64?, _ store: TemplateStore) async throws {
        let time = seconds.map { clock.now.advanced(by: .seconds($0)) }
        _ = try await store.propose(try publish(value), by: ada, at: time)
    }

    private func outcomes(_ publishing: ScheduledPublishing) async -> [ScheduledPublishing.Outcome] {
        await publishing.publishDue().map(\.1)
    }

    @Test func itIsPublishedAtItsTimeAndOnce() async throws {
        let store = try open()
        try await propose("later", in: 60, store)
        try await propose("with an approval", in: nil, store)
        let publishing = publishing(store)
        #expect(await outcomes(publishing) == [])
        clock.advance(59)
        #expect(await outcomes(publishing) == [])
        clock.advance(1)
        #expect(await outcomes(publishing) == [.published(1)])
        #expect(await outcomes(publishing) == [])
        let found = try #require(try await store.proposal(1, of: scope))
        #expect(found.proposal.state == .approved && found.proposal.decision?.by.principal == "schedule")
        #expect(try await store.current(scope)?.metadata.updateUser.name == "Ada")
    }

    @Test func itSurvivesARestart() async throws {
        do {
            let store = try open()
            try await propose("later", in: 60, store)
            #expect(try await store.scheduledProposals().count == 1)
            store.close()
        }
        clock.advance(600)
        let store = try open()
        #expect(try await store.scheduledProposals().map(\.number) == [1])
        #expect(await outcomes(publishing(store)) == [.published(1)])
    }

    @Test func severalNodesPublishItOnce() async throws {
        let store = try open()
        try await propose("later", in: 60, store)
        clock.advance(60)
        let all = await withTaskGroup(of: [ScheduledPublishing.Outcome].self) { group in
            for _ in 0..<8 { group.addTask { await outcomes(publishing(store)) } }
            return await group.reduce(into: []) { $0 += $1 }
        }
        #expect(all == [.published(1)])
    }

    @Test func aVersionInBetweenEndsIt() async throws {
        let store = try open()
        try await propose("later", in: 60, store)
        _ = try await store.publish(try publish("now"))
        clock.advance(60)
        let reason = "version 1 is current, but the proposal was made over version 0: propose it again"
        #expect(await outcomes(publishing(store)) == [.ended(reason: reason)])
        let found = try #require(try await store.proposal(1, of: scope)?.proposal)
        #expect(found.state == .rejected && found.decision?.reason == reason)
        #expect(await outcomes(publishing(store)) == [])
    }

    @Test func aRejectedOneIsNotPublished() async throws {
        let store = try open()
        try await propose("later", in: 60, store)
        #expect(try await store.scheduledProposals().count == 1)
        try await store.reject(1, of: scope, by: ada, reason: "")
        clock.advance(60)
        #expect(await outcomes(publishing(store)) == [])
        #expect(try await store.current(scope) == nil)
    }

    @Test func oneThatIsApprovedEarlierIsNotPublishedAgain() async throws {
        let store = try open()
        try await propose("later", in: 60, store)
        _ = try await store.approve(1, of: scope, by: ada, allowsOwn: true)
        clock.advance(60)
        #expect(await outcomes(publishing(store)) == [])
        #expect(try await store.current(scope)?.version == 1)
    }

    @Test func anHourLateIsTooLate() async throws {
        let store = try open()
        try await propose("first", in: 60, store)
        clock.advance(60 + 3600)
        #expect(await outcomes(publishing(store)) == [.published(1)])
        try await propose("second", in: 60, store)
        clock.advance(60 + 3601)
        #expect(
            await outcomes(publishing(store)) == [
                .ended(reason: "no daemon could publish it within an hour of its time")
            ])
        #expect(try await store.current(scope)?.version == 1)
    }

    @Test func aClockThatWasPutForwardIsTheReason() async throws {
        let store = try open()
        try await propose("across", in: 7200, store)
        try await propose("after", in: 14_400, store)
        let publishing = publishing(store)
        #expect(await outcomes(publishing) == [])
        clock.step(10_860)
        let reason = "the system clock was put forward by 3 h 1 min, across its time: propose it again"
        #expect(await outcomes(publishing) == [.ended(reason: reason)])
        // The daemon was away at the other one's time, which the step did not cross.
        clock.advance(7200)
        #expect(
            await outcomes(publishing) == [
                .ended(reason: "no daemon could publish it within an hour of its time")
            ])
    }

    /// Steps the clock forward and back: a time that the step crossed is yet to come.
    @Test func aClockThatWasPutBackAgainIsNotTheReason() async throws {
        let store = try open()
        let publishing = publishing(store)
        for step in [0, 10_860, -10_860] {
            clock.step(Int64(step))
            #expect(await outcomes(publishing) == [])
        }
        try await propose("crossed, and not", in: 7200, store)
        clock.advance(7200 + 3601)
        #expect(
            await outcomes(publishing) == [
                .ended(reason: "no daemon could publish it within an hour of its time")
            ])
    }

    @Test func anObjectionEndsIt() async throws {
        let store = try open()
        try await propose("later", in: 60, store)
        clock.advance(60)
        let refusing = publishing(store) { "no: \($0.author.principal)" }
        #expect(await outcomes(refusing) == [.ended(reason: "no: bootstrap")])
        #expect(try await store.current(scope) == nil)
    }

    @Test func aTextThatLooksLikeATimeIsNone() async throws {
        let store = try open()
        var publish = try publish("x")
        publish.description = #""publishTime":"2020-01-01T00:00:00Z""#
        _ = try await store.propose(publish, by: ada)
        #expect(try await store.scheduledProposals().isEmpty)
        #expect(await outcomes(publishing(store)) == [])
    }

    @Test func itsAuditEntryIsPartOfItsCommit() async throws {
        let store = try open()
        try await propose("later", in: 60, store)
        clock.advance(60)
        #expect(await outcomes(publishing(store)) == [.published(1)])
        let entry = try #require(try store.auditEntries().first)
        #expect(entry.version == 1 && entry.members["actor"] == "schedule" && entry.members["proposal"] == "1")
        let line = try JSONValue.parse(Array(try directory.bytes("audit.jsonl")))
        #expect(line["version"] == "1" && line["outcome"] == "ok" && line["changedKeys"] == ["greeting"])
        #expect(line["action"] == "publishProposal" && line["author"] == "bootstrap")
        #expect(line["commit"]?.string == String(entry.sequence))
        #expect(try AuditCopies(audit, store).completeLog().written == 0)
    }

    /// Opens a store that takes no publish, with two proposals whose time has come.
    private func openBusy() async throws -> TemplateStore {
        do {
            let store = try open()
            try await propose("one", in: 60, store)
            try await propose("two", in: 60, store)
            _ = try await store.scheduledProposals()
            store.close()
        }
        clock.advance(60)
        return try open(maxWaitingPublishes: 0)
    }

    @Test func eachThatIsLateIsReportedOnceForItsReason() async throws {
        let store = try await openBusy()
        let publishing = publishing(store)
        #expect(await outcomes(publishing) == [], "another node may be publishing it")
        clock.advance(9)
        #expect(await outcomes(publishing) == [])
        clock.advance(1)
        let late = await publishing.publishDue()
        #expect(late.map(\.0.number).sorted() == [1, 2])
        for (_, outcome) in late {
            guard case .waiting = outcome else {
                Issue.record("\(outcome)")
                continue
            }
        }
        for _ in 0..<3 {
            clock.advance(10)
            #expect(await outcomes(publishing) == [])
        }
    }

    @Test func oneThatWaitsIsTriedEachTenSeconds() async throws {
        let store = try await openBusy()
        let publishing = publishing(store)
        for second in 0..<30 {
            _ = await publishing.publishDue()
            #expect(store.figures.refused == UInt64(2 * (second / 10 + 1)))
            clock.advance(1)
        }
        clock.advance(-3600)
        _ = await publishing.publishDue()
        #expect(store.figures.refused == 6, "before its time it is not tried")
        clock.advance(3585)
        _ = await publishing.publishDue()
        #expect(store.figures.refused == 8, "a clock that was put back does not prolong the pause")
    }
}
