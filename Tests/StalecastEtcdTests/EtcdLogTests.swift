import NIOPosix
import StalecastCluster
import StalecastEtcd
import StalecastRecords
import StalecastTestServers
import StalecastTestSupport
import StalecastWire
import Testing

/// The log on real members. What it cannot show: disks that take time, networks that lose packets, etcd 3.6.
@Suite(.serialized, .enabled(if: Members.program != nil, "\(Members.advice)"))
struct EtcdLogTests {
    private let scope = Scope(project: .demo, namespace: .firebase)

    private func client(_ members: Members) throws -> EtcdClient {
        try EtcdClient(members.configuration, on: MultiThreadedEventLoopGroup.singleton)
    }

    private func entry(after head: LogHead, _ content: [UInt8] = Array("{}".utf8)) -> (LogEntry, [[UInt8]]) {
        var random = SystemRandomNumberGenerator()
        let (stored, chunks) = LogEntry.storing(content)
        let change = TemplateChange(
            scope: scope, sequence: head.sequence + 1,
            metadata: VersionMetadata(number: VersionNumber(clamping: head.sequence + 1), updateTime: .now()),
            etag: "e",
            changedKeys: nil)
        let entry = LogEntry(
            change: change, publish: .random(using: &random), after: head, node: "n", content: stored)
        return (entry, chunks)
    }

    /// Calls until it succeeds: members elect a leader first.
    private func whenReady<Value>(_ work: () async throws -> Value) async throws -> Value {
        while true {
            do { return try await work() } catch let error as LogError {
                if case .unreadable = error { throw error }
                try await Task.sleep(for: .milliseconds(50))
            }
        }
    }

    /// Appends behind the current head, as a proposer does: the same entry until the outcome is known.
    private func publish(_ log: EtcdLog, _ logMetadata: LogMetadata) async throws -> LogEntry {
        while true {
            let head = try await whenReady { try await log.page(after: 0, limit: 1000) }.head
            let entry = entry(after: head).0
            let outcome = try await whenReady { try await log.append(entry, under: logMetadata) }
            if case .committed = outcome { return entry }
            if case .taken(let other) = outcome, other.publish == entry.publish { return entry }
        }
    }

    @Test(.timeLimit(.minutes(5))) func whatIsPrunedIsGoneAndALateProposalUnderTheOldRulesFails() async throws {
        let members = try Members(1, network: 1)
        let client = try client(members)
        defer { client.close() }
        let log = EtcdLog(client, cluster: "pruned")
        let logMetadata = try await whenReady { try await log.amend(nil, to: LogMetadata(epoch: .random())) }
        for _ in 1...6 { _ = try await publish(log, logMetadata) }
        let page = try await log.page(after: 0, limit: 10)
        var rules = logMetadata
        rules.prunedBelow = 4
        #expect(try await log.prune([1, 3], under: logMetadata, to: rules))
        let pruned = try await log.page(after: 0, limit: 10)
        #expect(pruned.entries.map(\.sequence) == [2, 4, 5, 6] && pruned.head == page.head)
        #expect(pruned.logMetadata.prunedBelow == 4)
        #expect(try await log.prune([1, 3], under: pruned.logMetadata, to: rules), "they are gone")
        #expect(
            try await log.page(after: 0, limit: 1).logMetadata == pruned.logMetadata, "and nothing was written for that"
        )
        #expect(try await !log.prune([2], under: logMetadata, to: rules), "the charter is another")
        guard case .superseded = try await log.append(entry(after: page.head).0, under: logMetadata) else {
            Issue.record("what was proposed under the rules before has landed")
            return
        }
    }

    @Test(.timeLimit(.minutes(5))) func aDeposedOwnerAppendsNothing() async throws {
        let members = try Members(1, network: 1)
        let client = try client(members)
        defer { client.close() }
        let (log, records) = (EtcdLog(client, cluster: "owned"), EtcdRecords(client, cluster: "owned"))
        let logMetadata = try await whenReady { try await log.amend(nil, to: LogMetadata(epoch: .random())) }
        let assignment = RecordName(AssignmentService.kind, "source/demo/firebase")
        func taken() async throws -> SharedRecord {
            let outcome = try await whenReady { try await records.put([1], to: assignment, over: nil, lease: nil) }
            // A put whose answer came too late is the conflict of the next.
            switch outcome {
            case .done(let record?, _), .conflict(let record?, _): return record
            case .done(nil, _), .conflict(nil, _): throw LogError.unknown("the duty")
            }
        }
        func append(_ entry: LogEntry, for owner: SharedRecord) async throws -> Appended {
            try await whenReady { try await log.append(entry, under: logMetadata, owner: (assignment, owner.creation)) }
        }
        func lands(_ entry: LogEntry, for owner: SharedRecord) async throws -> Bool {
            switch try await append(entry, for: owner) {
            case .committed, .taken(entry): true
            default: false
            }
        }
        func isDeposed(_ entry: LogEntry, for owner: SharedRecord) async throws -> Bool {
            if case .deposed = try await append(entry, for: owner) { true } else { false }
        }
        let first = try await taken()
        let own = entry(after: .empty).0
        #expect(try await lands(own, for: first))
        let late = entry(after: LogHead(of: own)).0
        _ = try await whenReady { try await records.remove(assignment, at: first.revision) }
        #expect(try await isDeposed(late, for: first), "the assignment has no owner")
        let second = try await taken()
        #expect(second.creation != first.creation)
        #expect(try await isDeposed(late, for: first), "the assignment has another owner")
        // The former owner still learns that its entry landed.
        guard case .taken(own) = try await append(own, for: first) else { throw LogError.unknown("own") }
        #expect(try await lands(late, for: second))
        #expect(try await whenReady { try await log.page(after: 0, limit: 9) }.head == LogHead(of: late))
    }

    @Test(.timeLimit(.minutes(5))) func aLogKeepsItsPromises() async throws {
        let members = try Members(1, network: 1)
        let client = try client(members)
        defer { client.close() }
        let log = EtcdLog(client, cluster: "one")
        let logMetadata = try await whenReady { try await log.amend(nil, to: LogMetadata(epoch: .random())) }
        #expect(try await log.amend(nil, to: LogMetadata(epoch: .random())) == logMetadata)
        #expect(try await log.page(after: 0, limit: 10).head == .empty)

        let first = entry(after: .empty).0
        guard case .committed = try await log.append(first, under: logMetadata) else { throw LogError.unknown("first") }
        // The same again tells what became of it; another in its place does not land.
        guard case .taken(first) = try await log.append(first, under: logMetadata),
            case .taken(first) = try await log.append(entry(after: .empty).0, under: logMetadata)
        else { throw LogError.unknown("again") }
        let head = LogHead(of: first)
        #expect(try await log.isCurrent(head, under: logMetadata))
        #expect(try await !log.isCurrent(.empty, under: logMetadata))

        // Behind a head that the log never had: nothing.
        let lost = LogHead(of: entry(after: .empty).0)
        guard case .elsewhere(head) = try await log.append(entry(after: lost).0, under: logMetadata) else {
            throw LogError.unknown("elsewhere")
        }
        let renewed = try await log.amend(logMetadata, to: logMetadata.renewed(.random()))
        #expect(renewed.epoch != logMetadata.epoch && renewed.revision > logMetadata.revision)
        guard case .superseded(renewed) = try await log.append(entry(after: head).0, under: logMetadata) else {
            throw LogError.unknown("superseded")
        }
        #expect(try await log.amend(logMetadata, to: logMetadata.renewed(.random())) == renewed)

        var random = SeededRandom(seed: 1)
        let long = (0..<1_500_000).map { _ in UInt8.random(in: 0...255, using: &random) }
        let (large, chunks) = entry(after: head, long)
        guard case .beside(let key) = large.content else { throw LogError.unknown("inline") }
        guard case .elsewhere = try await log.append(large, under: renewed) else { throw LogError.unknown("no pieces") }
        try await log.store(chunks, of: key)
        guard case .committed = try await log.append(large, under: renewed) else { throw LogError.unknown("large") }
        let page = try await log.page(after: 1, limit: 10)
        #expect(page.entries == [large] && page.head == LogHead(of: large))
        #expect(try await log.content(of: page.entries[required: 0]) == long)
    }

    private func long(_ seed: UInt64) -> [UInt8] {
        var random = SeededRandom(seed: seed)
        return (0..<1_500_000).map { _ in UInt8.random(in: 0...255, using: &random) }
    }

    /// Removes contents while a publish is about to need one: an append finds all pieces or does not land.
    @Test(.timeLimit(.minutes(5))) func aContentGoesOnlyWhenNoEntryNeedsIt() async throws {
        let members = try Members(1, network: 6)
        let client = try client(members)
        defer { client.close() }
        let log = EtcdLog(client, cluster: "swept")
        let logMetadata = try await whenReady { try await log.amend(nil, to: LogMetadata(epoch: .random())) }
        #expect(try await log.contents().isEmpty)
        let (large, chunks) = entry(after: .empty, long(1))
        guard case .beside(let key) = large.content else { throw LogError.unknown("inline") }
        try await log.store(chunks, of: key)
        let seen = try #require(await log.contents().first)
        #expect(seen.digest == key.digest && Set(seen.revisions.keys) == ["0", "1", "all"])

        // Stored anew, or the log has gone on: nothing is removed.
        try await log.store(chunks, of: key)
        #expect(try await !log.remove(seen, at: .empty))
        let now = try #require(await log.contents().first)
        #expect(now != seen)
        #expect(try await !log.remove(now, at: LogHead(of: large)))
        #expect(try await log.contents() == [now])

        // Removed between a proposer's two steps: its entry does not land before it has stored the content again.
        #expect(try await log.remove(now, at: .empty))
        #expect(try await log.contents().isEmpty)
        guard case .elsewhere(.empty) = try await log.append(large, under: logMetadata) else {
            throw LogError.unknown("it landed without its content")
        }
        // Only a part is there, the manifest too: it was put late.
        let root = "/stalecast/swept~/content/\(key.digest)/"
        for name in ["1", "all"] {
            let value = name == "all" ? Array("2".utf8) : chunks[1]
            _ = try await client.transact(EtcdTransaction(then: [.put(root + name, value)]))
        }
        guard case .elsewhere(.empty) = try await log.append(large, under: logMetadata) else {
            throw LogError.unknown("it landed without a piece")
        }
        try await log.store(chunks, of: key)
        guard case .committed = try await log.append(large, under: logMetadata) else {
            throw LogError.unknown("refused")
        }
        #expect(try await log.content(of: large) == long(1))
    }

    /// Pieces that a slow or dead node put before their manifest.
    @Test(.timeLimit(.minutes(5))) func aPartOfAContentGoesUnlessItBecameWhole() async throws {
        let members = try Members(1, network: 7)
        let client = try client(members)
        defer { client.close() }
        let log = EtcdLog(client, cluster: "parts")
        _ = try await whenReady { try await log.amend(nil, to: LogMetadata(epoch: .random())) }
        let (large, chunks) = entry(after: .empty, long(2))
        guard case .beside(let key) = large.content else { throw LogError.unknown("inline") }
        let root = "/stalecast/parts~/content/\(key.digest)/"
        _ = try await client.transact(EtcdTransaction(then: [.put(root + "0", chunks[0])]))
        let part = try #require(await log.contents().first)
        _ = try await client.transact(EtcdTransaction(then: [.put(root + "all", Array("2".utf8))]))
        #expect(try await !log.remove(part, at: .empty), "its manifest has come meanwhile")
        #expect(try await log.remove(try #require(await log.contents().first), at: .empty))
        #expect(try await log.contents().isEmpty)
    }

    @Test(.timeLimit(.minutes(5))) func callsAreCountedByWhatTheyAreFor() async throws {
        let members = try Members(1, network: 8)
        let client = try client(members)
        defer { client.close() }
        let log = EtcdLog(client, cluster: "one")
        let logMetadata = try await whenReady { try await log.amend(nil, to: LogMetadata(epoch: .random())) }
        let before = client.figures
        _ = try await publish(log, logMetadata)
        #expect(try await log.isCurrent(try await log.page(after: 0, limit: 1).head, under: logMetadata))
        let after = client.figures
        func more(_ purpose: EtcdPurpose, _ outcome: EtcdFigures.Outcome) -> Int {
            (after.calls[purpose]?.outcomes[outcome] ?? 0) - (before.calls[purpose]?.outcomes[outcome] ?? 0)
        }
        #expect(more(.append, .ok) == 1 && more(.check, .ok) == 1 && more(.read, .ok) == 2)
        #expect(after.calls[.append]?.seconds.count == 1)
        members.kill9(0)
        // The first one may be sent on the old connection; then there is none.
        for _ in 0..<2 { _ = try? await log.isCurrent(.empty, under: logMetadata) }
        let failed = try #require(client.figures.calls[.check]).outcomes
        #expect((failed[.denied] ?? 0) >= 1 && (failed[.denied] ?? 0) + (failed[.unknown] ?? 0) == 2, "\(failed)")
        #expect(client.figures.moves > after.moves)
    }

    @Test(.timeLimit(.minutes(5))) func aWatchRings() async throws {
        let members = try Members(1, network: 2)
        let client = try client(members)
        defer { client.close() }
        let log = EtcdLog(client, cluster: "one")
        let logMetadata = try await whenReady { try await log.amend(nil, to: LogMetadata(epoch: .random())) }
        var watchEvents = try await log.watch().makeAsyncIterator()
        guard case .opened = await watchEvents.next() else { throw LogError.unknown("not opened") }
        let entry = try await publish(log, logMetadata)
        guard case .entry(entry) = await watchEvents.next() else { throw LogError.unknown("no entry") }
        _ = try await log.amend(logMetadata, to: logMetadata.renewed(.random()))
        guard case .other = await watchEvents.next() else { throw LogError.unknown("no charter") }
        members.kill9(0)
        #expect(await watchEvents.next() == nil)
    }

    /// Two watches at two members: what one brings no more the other does, and one that ended is opened again.
    @Test(.timeLimit(.minutes(5))) func oneOfTwoWatchesSuffices() async throws {
        let members = try Members(3, network: 30)
        let client = try client(members)
        defer { client.close() }
        let log = EtcdLog(client, cluster: "one", watches: 2)
        let logMetadata = try await whenReady { try await log.amend(nil, to: LogMetadata(epoch: .random())) }
        // A member that lags behind tells only now of the metadata.
        let news = try await log.watch().filter { if case .other = $0 { false } else { true } }
        var watchEvents = news.makeAsyncIterator()
        for _ in 0..<2 {
            guard case .opened = await watchEvents.next() else { throw LogError.unknown("not opened twice") }
        }
        let entry = try await publish(log, logMetadata)
        for _ in 0..<2 {
            guard case .entry(entry) = await watchEvents.next() else { throw LogError.unknown("not heard twice") }
        }
        // The first calls go to member 0, the watches to 1 and 2.
        members.kill9(1)
        let second = try await publish(log, logMetadata)
        var (isHeard, isOpenAgain) = (false, false)
        while !isHeard || !isOpenAgain {
            switch await watchEvents.next() {
            case .entry(second): isHeard = true
            case .opened: isOpenAgain = true
            case let other: throw LogError.unknown("\(String(describing: other))")
            }
        }
        for member in [0, 2] { members.kill9(member) }
        while await watchEvents.next() != nil {}
    }

    /// Many publishers with one head: each place is given once.
    @Test(.timeLimit(.minutes(5))) func ofManyAtOnePlaceOneLands() async throws {
        let members = try Members(3, network: 3)
        let client = try client(members)
        defer { client.close() }
        let log = EtcdLog(client, cluster: "one")
        let logMetadata = try await whenReady { try await log.amend(nil, to: LogMetadata(epoch: .random())) }
        let landed = try await withThrowingTaskGroup(of: Bool.self) { group in
            for _ in 0..<20 {
                let rival = entry(after: .empty).0
                group.addTask {
                    if case .committed = try await log.append(rival, under: logMetadata) { true } else { false }
                }
            }
            return try await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(landed == 1)
        let status = try await client.status(of: 1)
        #expect(status.leader != 0 && status.version.hasPrefix("3."))
    }

    /// A member dies, then comes back, then the next: what was acknowledged is there, once.
    @Test(.timeLimit(.minutes(5))) func acknowledgedEntriesOutliveMembers() async throws {
        let members = try Members(3, network: 4)
        let client = try client(members)
        defer { client.close() }
        let log = EtcdLog(client, cluster: "one")
        let logMetadata = try await whenReady { try await log.amend(nil, to: LogMetadata(epoch: .random())) }
        var acknowledged: [PublishID] = []
        for member in 0..<3 {
            for _ in 0..<20 { acknowledged.append(try await publish(log, logMetadata).publish) }
            members.kill9(member)
            for _ in 0..<20 { acknowledged.append(try await publish(log, logMetadata).publish) }
            try members.start(member)
        }
        let entries = try await whenReady { try await log.page(after: 0, limit: 1000) }.entries
        #expect(entries.map(\.publish) == acknowledged)
    }

    /// Leaves nothing of a migration that was cut off when another is begun, of a shorter store say.
    @Test(.timeLimit(.minutes(5))) func whatWasNotFoundedIsNoPartOfAnotherLog() async throws {
        let members = try Members(1, network: 29)
        let client = try client(members)
        defer { client.close() }
        let log = EtcdLog(client, cluster: "founded")
        let first = try await whenReady { try await log.beginFounding() }
        var last = LogHead.empty
        for _ in 1...3 {
            let (next, chunks) = entry(after: last, last == .empty ? long(3) : Array("{}".utf8))
            try await first.lay(next, chunks)
            last = LogHead(of: next)
        }
        let logMetadata = LogMetadata(epoch: .random())
        await #expect(throws: LogError.self) { try await first.found(logMetadata, head: .empty) }

        let second = try await log.beginFounding()
        #expect(try await log.contents().isEmpty)
        let own = entry(after: .empty).0
        try await second.lay(own, [])
        await #expect(throws: LogError.self) { try await first.lay(entry(after: last).0, []) }
        await #expect(throws: LogError.self) { try await first.found(logMetadata, head: last) }
        try await second.found(logMetadata, head: LogHead(of: own))
        let page = try await log.page(after: 0, limit: 10)
        #expect(page.entries == [own] && page.head == LogHead(of: own) && page.logMetadata.epoch == logMetadata.epoch)
        await #expect(throws: LogError.self) { _ = try await log.beginFounding() }
        #expect(try await log.page(after: 0, limit: 10).entries == [own])

        // A renewal for a log that ends elsewhere by now changes nothing.
        let renewed = page.logMetadata.renewed(.random())
        #expect(try await log.amend(page.logMetadata, to: renewed, at: .empty) == page.logMetadata)
        #expect(try await log.amend(page.logMetadata, to: renewed, at: page.head).epoch == renewed.epoch)
    }

    @Test(.timeLimit(.minutes(5))) func leasesComeAndGo() async throws {
        let members = try Members(1, network: 5)
        let client = try client(members)
        defer { client.close() }
        let lease = try await whenReady {
            do throws(EtcdFailure) { return try await client.grantLease(.seconds(30)) } catch { throw error.logError }
        }
        #expect(try await client.renewLease(lease) == 30)
        _ = try await client.transact(EtcdTransaction(then: [.put("/duty", Array("n".utf8), lease: lease)]))
        #expect(try await client.range(EtcdRange("/duty")).count == 1)
        try await client.revokeLease(lease)
        #expect(try await client.range(EtcdRange("/duty")).isEmpty)
        #expect(try await client.renewLease(lease) == 0)
    }
}
