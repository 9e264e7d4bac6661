import StalecastHub
import StalecastTestSupport
import StalecastWire
import Testing

/// Random histories of publishes, stages, restarts and clients: what is told is what is served, to each client.
@Suite struct ReleaseModelTests {
    @Test(arguments: 0..<40 as Range<UInt64>)
    func eachClientIsToldOfWhatItWouldFetchAndNeverGoesBack(seed: UInt64) {
        let served = ReleaseWorld.nothingServed()
        for history in 0..<UInt64(inputs(50)) {
            let world = ReleaseWorld(seed: seed * 50 + history, on: served)
            for number in 0..<50 {
                world.step()
                guard world.problems.isEmpty else {
                    Issue.record("history \(seed * 50 + history), step \(number): \(world.problems[0])")
                    return
                }
            }
        }
    }

    @Test(arguments: ReleaseWorld.Fault.allCases)
    func aPlantedFaultIsFound(fault: ReleaseWorld.Fault) {
        let served = ReleaseWorld.nothingServed()
        let isFound = (0..<60 as Range<UInt64>).contains { seed in
            let world = ReleaseWorld(seed: seed, fault, on: served)
            for _ in 0..<60 where world.problems.isEmpty { world.step() }
            return !world.problems.isEmpty
        }
        #expect(isFound)
    }

    @Test func bucketsAreEvenAndDifferFromVersionToVersion() {
        let keys = (0..<20_000).map { ClientKey(id: "client-\($0)") }
        let (one, two) = (
            ReleaseCut(ReleaseWorld.scope, 1, bounds: [1000, 10_000]),
            ReleaseCut(ReleaseWorld.scope, 2, bounds: [1000, 10_000])
        )
        let first = Set(keys.filter { one.stage(of: $0) == 0 })
        let second = Set(keys.filter { two.stage(of: $0) == 0 })
        #expect((1850...2150).contains(first.count) && (1850...2150).contains(second.count))
        #expect(first.intersection(second).count < 300)
    }

    @Test func clientsWithoutAnIDAreOfTheLastStageUnlessAddressesAreSplit() {
        let addresses = (0..<2000 as Range<UInt64>).map(ClientKey.init(address:))
        let last = ReleaseCut(ReleaseWorld.scope, 1, bounds: [5000, 10_000])
        let split = ReleaseCut(ReleaseWorld.scope, 1, bounds: [5000, 10_000], splitsAddresses: true)
        #expect(addresses.allSatisfy { last.stage(of: $0) == 1 })
        #expect((850...1150).contains(addresses.count { split.stage(of: $0) == 0 }))
    }
}
