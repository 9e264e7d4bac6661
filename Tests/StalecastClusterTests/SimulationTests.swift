import Foundation
import StalecastTestSupport
import Testing

/// The machines of a cluster in a simulated world: requests and answers that are lost, late or doubled; watches that drop,
/// repeat and reorder; crashes, cuts, retention, new epochs, restored snapshots. What it cannot show: that a real log does
/// what ``MemoryLog`` does, real disks, real clocks.
@Suite struct SimulationTests {
    @Test func noScheduleBreaksAPromise() {
        var acknowledged = 0
        var unknown = 0
        for seed in 0..<Simulations.schedules {
            let world = World(seed: seed)
            let violations = world.run()
            #expect(violations.isEmpty, "seed \(seed): \(violations)")
            if !violations.isEmpty { return }
            acknowledged += world.history.acknowledged
            unknown += world.history.unknown
        }
        // A world in which nothing succeeds, or nothing is in doubt, shows nothing.
        #expect(acknowledged > 6 * Int(Simulations.schedules))
        #expect(unknown > Int(Simulations.schedules) / 10)
    }

    @Test(arguments: Bug.allCases) func plantedBugIsFound(_ bug: Bug) {
        let found = (0..<Simulations.searched).first { !World(seed: $0, bug: bug).run().isEmpty }
        print("\(bug): found at seed \(found.map(String.init) ?? "none")")
        #expect(found != nil)
    }
}
