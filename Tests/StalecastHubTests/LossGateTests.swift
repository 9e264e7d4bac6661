import StalecastTestSupport
import Testing

import StalecastHub

@Suite struct LossGateTests {
    private static let second: UInt64 = 1_000_000_000

    // MARK: Simulated releases

    /// Clients of a simulated release: addresses with some streams each, of which one in 2,000 goes away as a whole.
    private struct Clients {
        var addresses = 20_000
        var streams = 1
        /// Share of a stream's chance to end for good in a round.
        var base = 0.005
        /// Chance that a told stream has more, once.
        var harm = 0.0
        /// Share of the addresses that are told.
        var stage = 0.01
    }

    /// - Returns: how many told addresses it took, and the seconds since the stage began; nil when it was not paused.
    private static func release(_ clients: Clients, _ random: inout SeededRandom) -> (addresses: Int, seconds: UInt64)?
    {
        var gate = LossGate(returnTime: 30 * second, margin: 0.02, at: 0)
        let addresses = 1...UInt64(clients.addresses)
        for address in addresses { for _ in 0..<clients.streams { gate.began(address, isTold: false) } }
        gate.reached(at: 0)
        let told = addresses.filter { _ in chance(clients.stage, &random) }
        for address in told { gate.told(address, streams: UInt32(clients.streams)) }
        for seconds in 0...75 {
            switch seconds {
            case 0: endSome(told, told: clients.base + clients.harm, addresses, clients, &gate, &random)
            case 16: endSome(told, told: clients.base, addresses, clients, &gate, &random)
            default: break
            }
            if case .harm(_, _, let count, _) = gate.judge(at: UInt64(seconds) * second) {
                return (count, UInt64(seconds))
            }
        }
        return nil
    }

    private static func endSome(
        _ told: [UInt64], told loss: Double, _ addresses: ClosedRange<UInt64>, _ clients: Clients,
        _ gate: inout LossGate,
        _ random: inout SeededRandom
    ) {
        var next = told.startIndex
        for address in addresses {
            let isTold = next < told.endIndex && told[next] == address
            if isTold { next += 1 }
            let isAway = chance(0.0005, &random)
            for _ in 0..<clients.streams where isAway || chance(isTold ? loss : clients.base, &random) {
                gate.ended(address, isTold: isTold, .byPeer)
            }
        }
    }

    private static func chance(_ probability: Double, _ random: inout SeededRandom) -> Bool {
        Double(random.next() >> 11) / 0x1p53 < probability
    }

    @Test(arguments: [0.005, 0.02])
    func quietReleasesAreNotPaused(base: Double) {
        var random = SeededRandom(seed: 4)
        let clients = Clients(addresses: isLongRun ? 20_000 : 300, base: base, stage: isLongRun ? 0.01 : 0.1)
        let paused = (0..<(isLongRun ? 2000 : 100)).count { _ in Self.release(clients, &random) != nil }
        #expect(paused <= (isLongRun ? 2 : 0))
    }

    @Test func aFifthOfTheToldClientsLostIsFoundAtOnePercent() throws {
        var random = SeededRandom(seed: 5)
        let runs = isLongRun ? 200 : 4
        let found = (0..<runs).compactMap { _ in Self.release(Clients(harm: 0.2), &random) }
        #expect(found.count * 100 >= runs * 99)
        // The return time after the first round, which is half of it.
        #expect(found.allSatisfy { $0.seconds == 45 })
    }

    @Test func halfOfTheToldClientsLostIsFoundBeforeTwelveAddresses() throws {
        var random = SeededRandom(seed: 6)
        let clients = Clients(addresses: 1000, harm: 0.5, stage: 0.2)
        let found = (0..<41).compactMap { _ in Self.release(clients, &random)?.addresses }.sorted()
        #expect(found.count == 41)
        #expect(found[20] < 12)
    }

    @Test func everyFalseAlarmOfManyRoundsTogetherIsRare() {
        var random = SeededRandom(seed: 7)
        let paused = (0..<200).count { _ in
            var evidence = LossEvidence(margin: 0.02)
            return (0..<20).contains { _ in
                var untold = LossSample()
                for _ in 0..<50 { untold.add(Self.chance(0.1, &random) ? 1 : 0) }
                evidence.begin(untold)
                return (0..<20).contains { _ in evidence.add(Self.chance(0.1, &random) ? 1 : 0) }
            }
        }
        #expect(paused <= 1)
    }

    // MARK: What counts

    /// A gate with 10 told and 90 untold addresses of some streams each, at time 0.
    private func gate(streams: UInt32 = 10) -> LossGate {
        var gate = LossGate(returnTime: 30 * Self.second, margin: 0.02, at: 0)
        for address in 1...100 as ClosedRange<UInt64> { for _ in 0..<streams { gate.began(address, isTold: false) } }
        gate.reached(at: 0)
        for address in 1...10 as ClosedRange<UInt64> { gate.told(address, streams: streams) }
        return gate
    }

    /// Ends streams of each of the addresses.
    private func end(
        _ addresses: ClosedRange<UInt64>, _ streams: Int, _ cause: LossGate.Cause = .byPeer, in gate: inout LossGate
    ) {
        for address in addresses { for _ in 0..<streams { gate.ended(address, isTold: address <= 10, cause) } }
    }

    /// Looks each second, and returns the last verdict.
    private func judge(_ gate: inout LossGate, _ seconds: ClosedRange<UInt64>) -> LossGate.Verdict {
        seconds.map { gate.judge(at: $0 * Self.second) }.last ?? .tooLittle(addresses: 0)
    }

    private func isHarm(_ verdict: LossGate.Verdict) -> Bool { if case .harm = verdict { true } else { false } }

    @Test func aShareIsKnownWhenTheReturnTimeIsOver() {
        var gate = gate()
        end(1...10, 5, in: &gate)
        #expect(judge(&gate, 1...44) == .tooLittle(addresses: 0))
        guard case .harm(let told, let untold, let addresses, let evidence) = gate.judge(at: 45 * Self.second) else {
            Issue.record("half of the told streams are lost")
            return
        }
        #expect((told, untold) == (0.5, 0))
        #expect(addresses < 10 && evidence >= 1000)
    }

    @Test func streamsThatComeBackAreNotLost() {
        var gate = gate()
        end(1...10, 10, in: &gate)
        _ = judge(&gate, 1...40)
        for address in 1...10 as ClosedRange<UInt64> { for _ in 0..<10 { gate.began(address, isTold: true) } }
        #expect(judge(&gate, 41...45) == .quiet(toldLoss: 0, untoldLoss: 0, addresses: 10))
        #expect(judge(&gate, 46...300) == .quiet(toldLoss: 0, untoldLoss: 0, addresses: 10))
    }

    @Test func aClientThatComesBackIntoAToldStageIsNotLostUntold() {
        var gate = gate()
        for _ in 0..<10 { gate.ended(50, isTold: false, .byPeer) }
        for _ in 0..<10 { gate.began(50, isTold: true) }
        #expect(judge(&gate, 1...45) == .quiet(toldLoss: 0, untoldLoss: 0, addresses: 11))
    }

    @Test func ourOwnEndsDoNotCount() {
        var gate = gate()
        end(1...10, 10, .byUs, in: &gate)
        #expect(judge(&gate, 1...45) == .quiet(toldLoss: 0, untoldLoss: 0, addresses: 10))
    }

    @Test func whatHappensToAllIsNotTheVersions() {
        var gate = gate()
        end(1...100, 5, in: &gate)
        #expect(judge(&gate, 1...45) == .quiet(toldLoss: 0.5, untoldLoss: 0.5, addresses: 10))
    }

    @Test func anOfficeBehindOneAddressCountsOnce() {
        var gate = gate(streams: 1)
        for _ in 0..<1000 { gate.began(10, isTold: true) }
        end(10...10, 1001, in: &gate)
        #expect(!isHarm(judge(&gate, 1...300)))
    }

    @Test func fewerThanFiveAddressesSayNothing() {
        var gate = LossGate(returnTime: 30 * Self.second, margin: 0.02, at: 0)
        for address in 1...100 as ClosedRange<UInt64> { gate.began(address, isTold: address <= 4) }
        end(1...4, 1, in: &gate)
        #expect(judge(&gate, 1...300) == .tooLittle(addresses: 0))
    }

    @Test func harmThatBeginsLateIsFound() {
        var gate = gate()
        #expect(judge(&gate, 1...1000) == .quiet(toldLoss: 0, untoldLoss: 0, addresses: 10))
        end(1...10, 5, in: &gate)
        #expect(isHarm(judge(&gate, 1001...1060)))
    }

    @Test func harmOverSeveralRoundsAddsUp() {
        var gate = gate(streams: 100)
        var verdicts: [LossGate.Verdict] = []
        for round in 0..<20 as Range<UInt64> {
            end(1...10, 9, in: &gate)
            for address in 1...10 as ClosedRange<UInt64> { gate.told(address, streams: 9) }
            let begin = round * 15 + 1
            verdicts.append(judge(&gate, begin...(begin + 14)))
        }
        #expect(!isHarm(verdicts[3]))
        #expect(isHarm(verdicts[19]))
    }

    @Test func harmStaysUntilAnOperatorGoesOn() {
        var gate = gate()
        end(1...10, 5, in: &gate)
        #expect(isHarm(judge(&gate, 1...300)))
        gate.resume()
        #expect(judge(&gate, 301...360) == .quiet(toldLoss: 0, untoldLoss: 0, addresses: 10))
    }

    @Test func stagesInQuickSuccessionLoseNoLoss() {
        var gate = gate()
        end(1...10, 5, in: &gate)
        for second in 1...8 as ClosedRange<UInt64> { gate.reached(at: second * Self.second) }
        #expect(isHarm(judge(&gate, 9...60)))
    }

    // MARK: Bounds

    @Test func ofManyAddressesAFairSampleIsKept() {
        var gate = LossGate(returnTime: 30 * Self.second, margin: 0.02, at: 0, capacity: 500)
        let addresses: ClosedRange<UInt64> = 1...20_000
        for address in addresses { gate.began(address, isTold: address % 2 == 0) }
        _ = judge(&gate, 1...15)
        for address in addresses where address % 10 < 2 { gate.ended(address, isTold: address % 2 == 0, .byPeer) }
        guard case .quiet(let told, let untold, let count) = judge(&gate, 16...60) else {
            Issue.record("both lose a fifth")
            return
        }
        #expect((250...500).contains(count))
        #expect((0.12...0.28).contains(told) && (0.12...0.28).contains(untold))
    }

    @Test func addressesWithoutStreamsAreForgotten() {
        var addresses = LossAddresses(capacity: 1000)
        for address in 1...1000 as ClosedRange<UInt64> {
            addresses.add(address, 1, round: 0)
            addresses.end(address, isLost: true, round: 0)
        }
        var losses: [Double] = []
        addresses.close(0, running: 1) { losses.append($0) }
        #expect(losses == Array(repeating: 1, count: 1000))
        #expect(addresses.count == 0)
    }

    @Test func factsThatContradictEachOtherDoNoHarm() {
        var random = SeededRandom(seed: 8)
        var gate = LossGate(returnTime: 30, margin: 0.02, at: 0, capacity: 16)
        for time in 0..<20_000 as Range<UInt64> {
            let address = random.next() % 40
            switch random.next() % 8 {
            case 0...2: gate.began(address, isTold: random.next() % 2 == 0)
            case 3...4: gate.ended(address, isTold: random.next() % 2 == 0, random.next() % 2 == 0 ? .byUs : .byPeer)
            case 5: gate.told(address, streams: UInt32(random.next() % 4))
            case 6: if random.next() % 50 == 0 { gate.reached(at: time) }
            default:
                switch gate.judge(at: time) {
                case .quiet(let told, let untold, let count), .harm(let told, let untold, let count, _):
                    #expect((0...1).contains(told) && (0...1).contains(untold) && count <= 16)
                case .tooLittle(let count): #expect(count <= 16)
                }
            }
        }
    }
}
