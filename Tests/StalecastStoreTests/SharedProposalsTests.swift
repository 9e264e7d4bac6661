import StalecastRecords
import StalecastStore
import StalecastTemplate
import StalecastTestRecords
import StalecastTestSupport
import StalecastWire
import Synchronization
import Testing

/// Proposals of two nodes over one set of records.
@Suite(.timeLimit(.minutes(5))) struct SharedProposalsTests {
    private static let ada = Proposal.Person(principal: "key:ada", user: UpdateUser())
    private static let eve = Proposal.Person(principal: "key:eve", user: UpdateUser())

    /// A log that all nodes follow at once.
    private final class Line: Sendable {
        let stores = Mutex<[TemplateStore]>([])
    }

    private final class Node: VersionAuthority {
        let store: TemplateStore
        private let directory: TemporaryDirectory
        private let line: Line
        private let task: Task<Void, Never>

        /// - Parameter own: title of a proposal that it has before it joins.
        init(
            _ records: MemoryRecords, _ line: Line, _ epoch: Epoch, own: String? = nil,
            uptime: @escaping @Sendable () -> Duration = { .zero }
        ) async throws {
            directory = try TemporaryDirectory()
            var configuration = StoreConfiguration.make(directory)
            configuration.replica = .init(epoch: epoch)
            configuration.uptime = uptime
            let store = try TemplateStore.open(configuration)
            (self.store, self.line) = (store, line)
            if let own {
                try await store.put("zero")
                try await store.propose(own)
            }
            let informer = Informer(records, pause: .milliseconds(1))
            let proposals = SharedProposals(informer, store, pause: .milliseconds(1))
            store.share(proposals)
            line.stores.withLock { $0.append(store) }
            task = Task {
                async let following: Void = informer.run()
                await proposals.run()
                await following
            }
            store.setAuthority(self)
        }

        func end() { task.cancel() }

        func commit(_ pending: Candidate) async throws(StoreError) -> StoredVersion {
            guard case .next(let version, let releases) = try await store.draft(pending) else {
                throw .unavailable("no version")
            }
            let publish = pending.idempotencyKey.map { PublishID(of: $0).description } ?? "\(version.change.sequence)"
            for store in line.stores.withLock({ $0 }) {
                try await store.apply([
                    .init(change: version.change, content: version.content, publish: publish, releases: releases)
                ])
            }
            return version
        }

        func refresh() async -> Bool { true }

        func state(_ number: Int64) async throws -> Proposal.State? {
            try await store.proposal(number, of: .demo)?.proposal.state
        }

        /// Waits until a proposal has come here with its template.
        func has(_ number: Int64) async throws {
            try await eventually { try await store.proposal(number, of: .demo)?.template != nil }
        }
    }

    private struct Nodes {
        let records = MemoryRecords()
        let line = Line()
        let a: Node
        let b: Node

        init(own: String? = nil, uptime: @escaping @Sendable () -> Duration = { .zero }) async throws {
            let epoch = Epoch.random()
            a = try await Node(records, line, epoch, own: own, uptime: uptime)
            b = try await Node(records, line, epoch, uptime: uptime)
        }

        /// Proposes as soon as the records are read.
        func propose(_ value: String, at node: Node) async throws {
            try await eventually {
                do { return try await node.store.propose(value) > 0 } catch StoreError.unavailable { return false }
            }
        }

        func count(_ kind: String) async throws -> Int {
            try await records.all().records.count { $0.name.kind == kind }
        }

        func end() { for node in [a, b] { node.end() } }
    }

    @Test func oneNodeProposesAndTheOtherApproves() async throws {
        let nodes = try await Nodes()
        defer { nodes.end() }
        try await nodes.propose("one", at: nodes.a)
        try await nodes.b.has(1)
        #expect(try await nodes.count("proposalPart") == 1)
        let own = await storeError {
            try await nodes.b.store.approve(1, of: .demo, by: Self.ada, allowsOwn: false)
        }
        #expect(own == .ownProposal(1))
        let version = try await nodes.b.store.approve(1, of: .demo, by: Self.eve, allowsOwn: false)
        #expect(version.template.greeting == "one")
        #expect(nodes.a.store.currentTemplates[.demo]?.template.greeting == "one")
        #expect(try await nodes.b.state(1) == .approved)
        try await eventually { try await nodes.a.state(1) == .approved }
        let again = await storeError { try await nodes.a.store.reject(1, of: .demo, by: Self.eve, reason: "") }
        #expect(again == .notOpen(1, .approved))
        #expect(try await nodes.count("proposalPart") == 0, "its content is a version now")
    }

    /// Claims need no content that is here already: without its parts each one would be refused.
    @Test func aClaimReadsNoContentAgain() async throws {
        let nodes = try await Nodes()
        defer { nodes.end() }
        try await nodes.propose("one", at: nodes.a)
        try await nodes.b.has(1)
        for part in try await nodes.records.all().records where part.name.kind == "proposalPart" {
            _ = try await nodes.records.remove(part.name, at: part.revision)
        }
        let own = await storeError {
            try await nodes.b.store.approve(1, of: .demo, by: Self.ada, allowsOwn: false)
        }
        #expect(own == .ownProposal(1))
        let version = try await nodes.b.store.approve(1, of: .demo, by: Self.eve, allowsOwn: false)
        #expect(version.template.greeting == "one")
        try await eventually { try await nodes.a.state(1) == .approved }
    }

    @Test func numbersOfTwoNodesFollowEachOther() async throws {
        let nodes = try await Nodes()
        defer { nodes.end() }
        try await withThrowingTaskGroup { group in
            for number in 1...10 {
                group.addTask {
                    try await nodes.propose("\(number)", at: number.isMultiple(of: 2) ? nodes.a : nodes.b)
                }
            }
            try await group.waitForAll()
        }
        for node in [nodes.a, nodes.b] {
            for number in 1...10 { try await node.has(Int64(number)) }
            let all = try await node.store.proposals(of: .demo, isOpen: true, limit: 99)
            #expect(all.map(\.number) == Array((1...10).reversed()))
        }
    }

    @Test func ofTwoDecisionsOneCounts() async throws {
        let nodes = try await Nodes()
        defer { nodes.end() }
        try await nodes.propose("one", at: nodes.a)
        try await nodes.b.has(1)
        async let first = storeError { try await nodes.a.store.reject(1, of: .demo, by: Self.eve, reason: "a") }
        async let second = storeError { try await nodes.b.store.reject(1, of: .demo, by: Self.eve, reason: "b") }
        let errors = await [first, second].compactMap(\.self)
        #expect(errors == [.notOpen(1, .rejected)])
    }

    /// Wall clocks of two nodes may be an hour apart: a claim is as old as this node has seen it.
    @Test func anApprovalUnderWayHoldsOffARejection() async throws {
        let uptime = Mutex(Duration.zero)
        let nodes = try await Nodes { uptime.withLock { $0 } }
        defer { nodes.end() }
        try await nodes.propose("one", at: nodes.a)
        try await nodes.b.has(1)
        let name = RecordName("proposal", "\(Scope.demo)/1")
        let record = try #require(try await nodes.records.records([name]).records.first)
        var value = try #require(try JSONValue.parse(record.value).object)
        var proposal = try #require(value["proposal"]?.object)
        // This is an hour ago by the approver's clock.
        proposal["approvingSince"] = .string(Timestamp.now().advanced(by: .seconds(-3600)).description)
        value["proposal"] = .object(proposal)
        _ = try await nodes.records.put(
            JSONValue.object(value).encoded(), to: name, over: record.revision, lease: nil)
        try await eventually {
            try await nodes.b.store.proposal(1, of: .demo)?.proposal.approvingSince != nil
        }
        func reject() async -> StoreError? {
            await storeError { try await nodes.b.store.reject(1, of: .demo, by: Self.eve, reason: "") }
        }
        guard case .unavailable = await reject() else { return #expect(Bool(false)) }
        #expect(try await nodes.b.state(1) == .open)
        uptime.withLock { $0 = .seconds(661) }
        #expect(await reject() == nil)
        #expect(try await nodes.b.state(1) == .rejected)
    }

    @Test func proposalsFromBeforeTheClusterAreShared() async throws {
        let nodes = try await Nodes(own: "old")
        defer { nodes.end() }
        try await nodes.b.has(1)
        try await nodes.propose("new", at: nodes.b)
        try await nodes.a.has(2)
        #expect(try await nodes.a.store.proposal(1, of: .demo)?.template?.greeting == "old")
    }

    @Test func withoutTheRecordsNothingIsKept() async throws {
        let nodes = try await Nodes()
        defer { nodes.end() }
        try await nodes.propose("one", at: nodes.a)
        try await nodes.b.has(1)
        nodes.records.setAway(true)
        for refused in [
            await storeError { try await nodes.a.store.propose("two") },
            await storeError { try await nodes.b.store.approve(1, of: .demo, by: Self.eve, allowsOwn: true) },
        ] {
            guard case .unavailable = refused else { return #expect(Bool(false), "\(String(describing: refused))") }
        }
        nodes.records.setAway(false)
        #expect(try await nodes.count("proposal") == 1)
        #expect(try await nodes.a.store.proposals(of: .demo, isOpen: true, limit: 9).map(\.number) == [1])
    }
}

extension TemplateStore {
    /// - Returns: number of the proposal.
    @discardableResult
    fileprivate func propose(_ value: String) async throws -> Int64 {
        try await propose(
            Publish(scope: .demo, template: .greeting(value), precondition: .any),
            by: Proposal.Person(principal: "key:ada", user: UpdateUser())
        ).number
    }
}
