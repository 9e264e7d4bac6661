import StalecastEdge
import StalecastHub
import StalecastWire
import Testing

/// Tests the promises to a subscriber, whichever half of Edge carries it: without sockets, with a moved clock.
@Suite struct AudienceTests {
    // MARK: Streams

    @Test func aStreamIsBeatenAndEndsAtItsAgeWithADelay() throws {
        let carrier = MemoryCarrier { $0.times.streamLifetime = .seconds(100) }
        let client = try carrier.stream()
        #expect(client.text.contains("retry: ") && client.text.hasSuffix("\n\n\r\n"))
        carrier.pass(22_000)
        #expect(!client.text.contains(": hb"))
        carrier.pass(6000)
        #expect(client.text.contains(": hb"))
        carrier.pass(51_000)
        #expect(!client.isOver)
        carrier.pass(42_000)
        #expect(client.isOver && client.reason == .lifetime && client.text.hasSuffix("\r\n0\r\n\r\n"))
        #expect(carrier.audience.slots.used == 0 && carrier.audience.inconsistencies() == [])
    }

    @Test func aStreamThatTakesNothingGetsTheNewestLaterAndIsClosedAtTheLimit() throws {
        let carrier = MemoryCarrier()
        let (slow, stalled) = (try carrier.stream(), try carrier.stream())
        (slow.room, stalled.room) = (10, 10)
        for _ in 1...5 { carrier.publish() }
        #expect(slow.versions == [] && carrier.audience.backlogs.count == 2)
        #expect(carrier.streamCounts(of: LiveEdge.scope).backlogged == 2)
        carrier.pass(5000)
        carrier.unblock(slow)
        #expect(slow.versions == [1, 5] && slow.text.contains(#""sinceTemplateVersionNumber":"1""#))
        #expect(carrier.audience.tally.coalesced == 3)
        carrier.pass(5100)
        #expect(stalled.isOver && stalled.reason == .writeStall && !slow.isOver)
        let counts = carrier.streamCounts(of: LiveEdge.scope)
        #expect((counts.streams, counts.left, counts.backlogged) == (2, 1, 0))
        #expect(carrier.audience.inconsistencies() == [])
    }

    @Test func aDeadStreamLeavesAfterTheFanOutAndHarmsNoOther() throws {
        let carrier = MemoryCarrier()
        let clients = try (0..<5).map { _ in try carrier.stream("topic=PUSH_RC&topic=pay") }
        clients[0].isDead = true
        clients[3].isDead = true
        carrier.publish()
        #expect(clients.map(\.isOver) == [true, false, false, true, false])
        #expect(clients[4].versions == [1, 1] && carrier.audience.tally.drops[.peerClosed] == 2)
        #expect(carrier.audience.inconsistencies() == [])
    }

    @Test func aClientWhoseSocketTookNothingWasNotTold() throws {
        let carrier = MemoryCarrier()
        let (dead, told) = (try carrier.stream("topic=PUSH_RC&client=a"), try carrier.stream("topic=PUSH_RC&client=b"))
        dead.isDead = true
        carrier.publish()
        carrier.hangUp(told)
        let clients = try #require(carrier.hub.propagation.propagation(of: LiveEdge.scope)).clients
        #expect(clients.audience == 2 && clients.left == 1 && clients.lost == 0, "the other may come back")
    }

    @Test func streamsThatAcknowledgedNothingAreCountedOnlyWhereTheKernelWasAsked() throws {
        let carrier = MemoryCarrier()
        let slow = try carrier.stream()
        let others = try (0..<4).map { _ in try carrier.stream("topic=server") }
        #expect(carrier.streamCounts(of: LiveEdge.other).unread == 0, "there is no version")
        // The kernel cannot say it of the last stream.
        for (client, answer) in zip([slow] + others, [false, true, true, false, nil]) {
            client.hasAcknowledged = answer
        }
        carrier.publish()
        carrier.publish(in: LiveEdge.other)
        #expect(carrier.streamCounts(of: LiveEdge.scope).unread == 1)
        let counts = carrier.streamCounts(of: LiveEdge.other)
        #expect(counts.unread == 1 && counts.receivedUnknown == 1, "the other scope's look does not stand in its way")
        carrier.publish(in: LiveEdge.other)
        others[2].hasAcknowledged = true
        // nil: the kernel may not be asked again so soon.
        #expect([nil, 0].contains(carrier.streamCounts(of: LiveEdge.other).unread))
    }

    // MARK: Polls

    @Test func aPollIsAnsweredByTheNextVersionOrEmptyInTime() throws {
        let carrier = MemoryCarrier()
        let (first, second) = (
            try carrier.stream("topic=PUSH_RC&wait=5s", kind: .poll), try carrier.stream(kind: .poll)
        )
        carrier.pass(6000)
        #expect(first.isOver && first.text.hasPrefix("HTTP/1.1 200 ") && first.versions == [] && !second.isOver)
        carrier.publish()
        #expect(second.isOver && second.versions == [1])
        let late = try carrier.stream("topic=PUSH_RC&have=0", kind: .poll)
        #expect(late.isOver && late.versions == [1])
        #expect(carrier.audience.tally.polls == 0 && carrier.audience.inconsistencies() == [])
    }

    // MARK: Firebase's streams

    @Test func messagesKeepADistanceAndTheNewestOfABurstComesAgain() throws {
        let carrier = MemoryCarrier()
        let client = try carrier.firebase()
        for _ in 1...3 { carrier.publish() }
        #expect(client.versions == [1] && carrier.streamCounts(of: LiveEdge.scope).backlogged == 1)
        carrier.pass(100)
        #expect(client.versions == [1])
        carrier.pass(100)
        #expect(client.versions == [1, 3] && carrier.audience.tally.coalesced == 1)
        #expect(carrier.streamCounts(of: LiveEdge.scope).backlogged == 0)
        carrier.pass(4900)
        #expect(client.versions == [1, 3])
        carrier.pass(200)
        #expect(client.versions == [1, 3, 3] && carrier.audience.tally.echoes == 1)
        carrier.publish()
        carrier.pass(20_000)
        #expect(client.versions == [1, 3, 3, 4], "a message that stands alone comes once")
    }

    @Test func aStreamThatComesDuringADistanceEndsIt() throws {
        let carrier = MemoryCarrier()
        let early = try carrier.firebase()
        for _ in 1...2 { carrier.publish() }
        let late = try carrier.firebase()
        #expect(early.versions == [1, 2] && late.versions == [2])
        carrier.pass(300)
        #expect(late.versions == [2])
    }

    /// Forty are told over four seconds; the others are told at once.
    private func paced() throws -> (MemoryCarrier, [MemoryCarrier.Client]) {
        let carrier = MemoryCarrier(herdBudget: 10)
        let clients = try (0..<40).map { _ in try carrier.firebase() }
        carrier.pass(1000)
        carrier.publish()
        return (carrier, clients)
    }

    @Test func aPacedFanOutTakesTheWindowAndMissesNoStream() throws {
        let (carrier, clients) = try paced()
        let other = try carrier.stream("topic=PUSH_RC&have=0")
        let again = try carrier.firebase()
        #expect(other.versions == [1] && again.versions == [1], "a stream that comes is told at once")
        for second in 1...4 {
            #expect(clients.count { $0.versions == [1] } <= 10 * (second - 1))
            #expect(carrier.streamCounts(of: LiveEdge.scope).backlogged == clients.count { $0.versions == [] })
            carrier.pass(1000)
        }
        // It began with the tick after the publish.
        carrier.pass(100)
        #expect(clients.allSatisfy { $0.versions == [1] })
        carrier.pass(20_000)
        #expect(clients.allSatisfy { $0.versions == [1] }, "there was no burst")
        #expect(carrier.audience.inconsistencies() == [])
    }

    @Test func aNewVersionSupersedesTheRestOfAFanOut() throws {
        let (carrier, clients) = try paced()
        carrier.pass(2100)
        let rest = clients.filter { $0.versions == [] }
        #expect(rest.count == 20)
        for client in rest.prefix(4) { carrier.hangUp(client) }
        carrier.pass(1000)
        carrier.publish()
        carrier.pass(2000)
        let waited = rest.dropFirst(4).filter { !$0.versions.contains(1) }
        #expect(!waited.isEmpty && waited.allSatisfy { $0.versions == [2] }, "they waited longest")
        carrier.pass(2000)
        #expect(clients.allSatisfy { $0.isOver || $0.versions.last == 2 })
        #expect(carrier.streamCounts(of: LiveEdge.scope).backlogged == 0)
        #expect(carrier.audience.inconsistencies() == [])
    }

    @Test func aRollbackGoesToAllAtOnce() throws {
        let (carrier, clients) = try paced()
        carrier.pass(1000)
        carrier.publish(.rollback)
        // The distance to the last turns.
        carrier.pass(200)
        #expect(clients.allSatisfy { $0.versions.last == 2 })
        let counts = carrier.streamCounts(of: LiveEdge.scope)
        #expect((counts.streams, counts.told, counts.left) == (40, 40, 0))
    }

    @Test func aDrainEndsAPacedFanOutWithTheVersionSaid() throws {
        let (carrier, clients) = try paced()
        carrier.audience.drain(over: 500)
        carrier.pass(700)
        #expect(clients.allSatisfy { $0.reason == .drain && Set($0.versions) == [1] })
        #expect(clients.allSatisfy { $0.text.contains("retryIntervalSeconds") })
        #expect(carrier.audience.slots.used == 0)
    }

    // MARK: Bindings and releases

    @Test func subscribersOfATopicThatIsGoneAreEnded() throws {
        let carrier = MemoryCarrier()
        let (pay, push) = (try carrier.stream("topic=pay"), try carrier.stream())
        let both = try carrier.stream("topic=pay&topic=PUSH_RC", kind: .poll)
        carrier.hub.rebind([LoneShard.push, TopicBinding(invalidationsOf: LiveEdge.scope)])
        carrier.takeEvents()
        #expect(pay.reason == .topicRetired && both.isOver && !push.isOver)
        #expect(carrier.audience.inconsistencies() == [])
    }

    @Test func aSplitMovesMembersAndTellsTheStageAlone() throws {
        let carrier = MemoryCarrier(herdBudget: 1)
        let cut = ReleaseCut(LiveEdge.scope, 2, bounds: [2000, 10_000])
        let ids = (0..<60).map { "client-\($0)" }
        let streams = try ids.map { try carrier.stream("topic=PUSH_RC&topic=pay&client=\($0)") }
        let apps = try ids.map { try carrier.firebase("topic=x&have=0&client=\($0)") }
        carrier.pass(1000)
        carrier.publish()
        carrier.hub.split(LiveEdge.scope, by: cut)
        carrier.takeEvents()
        #expect(apps.allSatisfy { $0.versions == [1] }, "turns that were waited for end with the split")
        #expect(carrier.audience.inconsistencies() == [])
        carrier.pass(1000)
        carrier.publish(to: ReleaseAudience(stages: 0..<1, isWhole: false))
        carrier.pass(130_000)
        for (id, client) in zip(ids + ids, streams + apps) {
            let isEarly = cut.stage(of: ClientKey(id: id)) == 0
            #expect(client.versions.contains(2) == isEarly, "\(id)")
        }
        #expect(carrier.audience.inconsistencies() == [])
    }

    // MARK: Books

    /// Checks after every tenth random step that the books agree, and in the end that no stream's versions decreased
    /// and each stream that takes bytes has the newest.
    @Test(arguments: 0..<12 as Range<UInt64>) func theBooksAgreeWhateverHappens(seed: UInt64) throws {
        var random = SplitMix(seed)
        let carrier = MemoryCarrier(herdBudget: seed % 2 == 0 ? 0 : 5) { $0.times.burstEcho = .seconds(1) }
        var clients: [MemoryCarrier.Client] = []
        for step in 0..<150 {
            let client = clients.randomElement(using: &random)
            switch Int.random(in: 0..<10, using: &random) {
            case 0: clients.append(try carrier.stream())
            case 1: clients.append(try carrier.stream("topic=pay&topic=PUSH_RC"))
            case 2: clients.append(try carrier.firebase())
            case 3: _ = try carrier.stream("topic=PUSH_RC&wait=9s", kind: .poll)
            case 4: client?.room = Int.random(in: 0...300, using: &random)
            case 5: if let client { carrier.unblock(client) }
            case 6: if let client { carrier.hangUp(client) }
            case 7: client?.isDead = Int.random(in: 0..<5, using: &random) == 0
            case 8: carrier.pass(100 * Int.random(in: 1...20, using: &random))
            default: carrier.publish(Bool.random(using: &random) ? .rollback : .incremental)
            }
            if step % 10 == 0 { #expect(carrier.audience.inconsistencies() == []) }
        }
        carrier.publish()
        for client in clients { carrier.unblock(client) }
        carrier.pass(20_000)
        for client in clients {
            #expect(client.versions == client.versions.sorted())
            #expect(client.isOver || client.isDead || client.versions.last == Int(carrier.hub.headSequence))
        }
        #expect(carrier.streamCounts(of: LiveEdge.scope).backlogged == 0)
        #expect(carrier.audience.inconsistencies() == [])
    }
}

/// Random numbers that a seed repeats.
private struct SplitMix: RandomNumberGenerator {
    private var state: UInt64

    init(_ seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = (state ^ (state >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
