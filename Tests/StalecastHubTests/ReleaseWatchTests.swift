import StalecastWire
import Testing

import StalecastHub

@Suite struct ReleaseWatchTests {
    private let second: UInt64 = 1_000_000_000

    private func gate() -> LossGate { LossGate(returnTime: 30 * second, margin: 0.02, at: 0) }

    private func seat(_ version: VersionNumber, isTold: Bool) -> ReleaseSeat {
        ReleaseSeat(scope: .demo, version: version, isTold: isTold)
    }

    @Test func factsOfAnEarlierReleaseDoNotCount() {
        let watch = ReleaseWatch()
        #expect(!watch.isOpen && watch.judge(.demo, at: 0) == nil)
        watch.begin(3, of: .demo, gate())
        #expect(watch.isOpen)
        let addresses = Array(1...10 as ClosedRange<UInt64>)
        watch.began(seat(2, isTold: true), addresses)
        watch.began(seat(3, isTold: false), addresses)
        watch.told(seat(3, isTold: false), Array(addresses.prefix(5)))
        for address in addresses { watch.ended(seat(2, isTold: true), address, .byPeer) }
        #expect(watch.judge(.demo, at: 15 * second) == .tooLittle(addresses: 0))
        #expect(watch.judge(.demo, at: 45 * second) == .quiet(toldLoss: 0, untoldLoss: 0, addresses: 5))
        watch.keep { $1 == 2 }
        #expect(!watch.isOpen && watch.judge(.demo, at: 46 * second) == nil)
    }

    @Test func unknownAddressesAreNotCounted() {
        let watch = ReleaseWatch()
        watch.begin(3, of: .demo, gate())
        watch.began(seat(3, isTold: true), Array(repeating: 0, count: 10))
        watch.began(seat(3, isTold: false), Array(1...10))
        _ = watch.judge(.demo, at: 15 * second)
        #expect(watch.judge(.demo, at: 45 * second) == .tooLittle(addresses: 0))
    }

    @Test func figuresAreOfOneVersion() {
        let watch = ReleaseWatch()
        watch.show([GateReading("loss", .ok)], ReleaseClients.Reach(), of: .demo, 3)
        #expect(watch.reach(of: .demo, 3) == ReleaseClients.Reach() && watch.reach(of: .demo, 4) == nil)
        #expect(watch.gates(of: .demo, 3).map(\.name) == ["loss"] && watch.gates(of: .demo, 4).isEmpty)
    }

    /// A cursor from between two versions does not say whether its client was told of the first.
    @Test func aCursorSaysNothingOfAReleaseThatWasTakenBackFromOthers() throws {
        let hub = Hub(board: .make())
        hub.announce(.make(1), at: 0)
        hub.split(.demo, by: ReleaseCut(.demo, 2, bounds: [5000, 10_000]))
        hub.announce(.make(2, keys: ["b"]), to: ReleaseAudience(stages: 0..<1, isWhole: false), at: 0)
        hub.announce(.make(3, keys: ["b"]), to: ReleaseAudience(stages: 0..<1, isWhole: true), at: 0)
        hub.announce(.make(4, keys: ["c"]), at: 0)
        let board = hub.board
        let late = try #require(board.stageTopics[board.push])[1]
        for sequence in 1...3 as ClosedRange<CommitSequence> {
            let debts = board.opening(for: [late], from: board.cursor(sequence)).messages
            #expect(debts.map(\.since) == [1], "from \(sequence)")
        }
    }

    /// Clients of the other stages lack the keys of the release, which the version in its place still differs in.
    @Test func whatSupersedesAReleaseReachesTopicsOfItsKeysWhereItWasNotTold() throws {
        let hub = Hub(board: .make())
        hub.announce(.make(1, keys: ["pay_card"]), at: 0)
        hub.split(.demo, by: ReleaseCut(.demo, 2, bounds: [5000, 10_000]))
        let release = ReleaseAudience(stages: 0..<1, isWhole: false)
        hub.announce(.make(2, keys: ["pay_card", "welcome"]), to: release, at: 0)
        let board = hub.board
        let stages = try #require(board.stageTopics[board.payTopic])
        let announcement = board.announcement(of: .make(3, keys: ["other"]), fetchWindowMs: 0, at: 0)
        let pay = announcement.encodedMessages.filter { $0.encodedMessage.message.topic == .pay }
        #expect(Set(pay.map(\.topic)) == [board.payTopic, stages[1]], "the first stage has the keys already")
        for (_, encoded) in pay {
            #expect(encoded.message.since == 1 && encoded.message.changedKeys == ["pay_card"])
        }
        let push = announcement.encodedMessages.filter { $0.encodedMessage.message.topic == .pushRC }
        #expect(Set(push.map(\.encodedMessage.message.since)) == [1, 2])
        #expect(push.allSatisfy { $0.encodedMessage.message.changedKeys?.contains("other") == true })
    }

    @Test func aStageTellsTheStreamsOfItsTopicsOnce() throws {
        let hub = Hub(board: .make())
        for version in 1...2 as ClosedRange<VersionNumber> { hub.announce(.make(version), at: 0) }
        let cut = ReleaseCut(.demo, 3, bounds: [5000, 10_000])
        hub.split(.demo, by: cut)
        let keys = (0..<100).map { ClientKey(id: "client-\($0)") }
        let base = try #require(hub.board.topics(.pushRC, in: .demo).first)
        func seats() -> [Int: Set<ReleaseSeat>] {
            let board = hub.board
            let stages = Dictionary(grouping: keys) { cut.stage(of: $0) }
            return stages.mapValues { keys in
                Set(keys.flatMap { board.releaseSeats(of: board.seats(of: [base], for: $0)) })
            }
        }
        #expect(seats() == [0: [seat(3, isTold: false)], 1: [seat(3, isTold: false)]])
        var board = hub.board
        let first = board.announcement(
            of: .make(3), to: ReleaseAudience(stages: 0..<1, isWhole: false), fetchWindowMs: 0, at: 0)
        let newly = board.newlyTold(first)
        #expect(!newly.isEmpty && newly.allSatisfy { board[$0.topic].stage == 0 && !$0.seat.isTold })
        board.apply(first)
        #expect(board.newlyTold(first).isEmpty)
        hub.announce(.make(3), to: ReleaseAudience(stages: 0..<1, isWhole: false), at: 0)
        #expect(seats() == [0: [seat(3, isTold: true)], 1: [seat(3, isTold: false)]])
        // A version that takes the release back announces no stage.
        let back = board.announcement(
            of: .make(4), to: ReleaseAudience(stages: 0..<1, isWhole: true), fetchWindowMs: 0, at: 0)
        #expect(board.newlyTold(back).isEmpty)
    }
}
