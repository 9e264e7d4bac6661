import NIOPosix
import StalecastEtcd
import StalecastRecords
import StalecastTestSupport
import Synchronization
import Testing

/// Shared records on real members, and boards that follow them while members die.
@Suite(.serialized, .enabled(if: Members.program != nil, "\(Members.advice)"))
struct EtcdRecordsTests {
    private func client(_ members: Members) throws -> EtcdClient {
        try EtcdClient(members.configuration, on: MultiThreadedEventLoopGroup.singleton)
    }

    private func whenReady<Value>(_ work: () async throws -> Value) async throws -> Value {
        while true {
            do { return try await work() } catch is LogError { try await Task.sleep(for: .milliseconds(50)) }
        }
    }

    @Test(.timeLimit(.minutes(5))) func recordsAreComparedAndSet() async throws {
        let members = try Members(1, network: 21)
        let client = try client(members)
        defer { client.close() }
        let records = EtcdRecords(client, cluster: "one")
        let name = RecordName("webhook", "a/b")
        #expect(try await whenReady { try await records.all() }.records.isEmpty)
        guard case .done(let made?, _) = try await records.put([1], to: name, over: nil, lease: nil),
            case .conflict(made?, _) = try await records.put([2], to: name, over: nil, lease: nil),
            case .conflict(made?, _) = try await records.put([2], to: name, over: made.revision - 1, lease: nil),
            case .done(let next?, let revision) = try await records.put([2], to: name, over: made.revision, lease: nil),
            case .conflict(next?, _) = try await records.remove(name, at: made.revision)
        else { throw LogError.unknown("puts") }
        #expect(next.creation == made.creation && next.revision == revision && revision > made.revision)
        let page = try await records.records([name, RecordName("webhook", "a")])
        #expect(page.records == [next] && page.revision == revision)

        #expect(try await records.keep([7], of: name, token: next.creation))
        #expect(try await !records.keep([8], of: name, token: next.creation - 1))
        guard case .done(nil, _) = try await records.remove(name, at: next.revision) else {
            throw LogError.unknown("remove")
        }
        #expect(try await !records.keep([9], of: name, token: next.creation))
        #expect(try await records.kept(of: name) == [7])

        let lease = try await records.grant(.seconds(60))
        #expect(try await records.renew(lease))
        let puts = (0..<450).map { RecordPut(name: RecordName("node", "\($0)"), value: [0], over: nil, lease: lease) }
        for start in stride(from: 0, to: 450, by: RecordPut.most) {
            let (isDone, page) = try await records.put(Array(puts[start..<start + RecordPut.most]))
            #expect(isDone && page.records.count == RecordPut.most && Set(page.records.map(\.revision)).count == 1)
        }
        #expect(try await Set(records.all().records.map(\.name.id)) == Set((0..<450).map(String.init)))
        let other = RecordPut(name: RecordName("node", "new"), value: [1], over: nil, lease: lease)
        let (isDone, conflict) = try await records.put([other, puts[7]])
        #expect(!isDone && conflict.records.map(\.name) == [puts[7].name], "none is put where one conflicts")
        try await records.revoke(lease)
        #expect(try await !records.renew(lease))
        #expect(try await records.all().records.isEmpty)
        await #expect { try await records.put([1], to: name, over: nil, lease: lease) } throws: {
            if case LogError.notDone = $0 { true } else { false }
        }
    }

    /// Writers at two boards while each member is killed and comes back: both boards end as what is stored.
    @Test(.timeLimit(.minutes(5))) func informersAgreeAfterKills() async throws {
        let members = try Members(3, network: 22)
        let clients = [try client(members), try client(members)]
        defer { for client in clients { client.close() } }
        let boards = clients.map { Informer(EtcdRecords($0, cluster: "one")) }
        let told = Mutex<[String: [UInt8]]>([:])
        await boards[1].observe("k") { change in
            told.withLock { told in
                switch change {
                case .put(let record): told[record.name.id] = record.value
                case .removed(let name): told[name.id] = nil
                case .complete: break
                }
            }
        }
        let tasks = boards.map { informer in Task { await informer.run() } }
        defer { for task in tasks { task.cancel() } }
        for round in 0..<3 {
            for number in 0..<40 {
                if number == 10 { members.kill9(round) }
                if number == 30 { try members.start(round) }
                let name = RecordName("k", "\(number)")
                try await write(name, (number + round) % 3 == 2 ? nil : UInt8(round), boards[number % 2])
            }
        }
        let stored = try await whenReady { try await EtcdRecords(clients[0], cluster: "one").all() }
        let expected = Dictionary(uniqueKeysWithValues: stored.records.map { ($0.name.id, $0.value) })
        try await eventually { told.withLock { $0 } == expected }
        #expect(expected.count == 26)
    }

    /// Puts a record, or removes the one that is there for nil, until it is done.
    private func write(_ name: RecordName, _ value: UInt8?, _ informer: Informer) async throws {
        try await whenReady {
            let known = await informer.record(name)
            guard value != nil || known != nil else { return }
            let outcome =
                if let value { try await informer.put([value], to: name, over: known?.revision) } else {
                    try await informer.remove(name, at: known?.revision ?? 0)
                }
            if case .conflict = outcome { throw LogError.notDone("again") }
        }
    }
}
