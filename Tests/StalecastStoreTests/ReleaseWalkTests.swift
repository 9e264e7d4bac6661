import StalecastTestSupport
import StalecastWire
import Testing

import StalecastStore

/// Random walks of releases through all transitions, restarts and jumps of the clock.
@Suite struct ReleaseWalkTests {
    @Test func noWalkBreaksAPromise() throws {
        var random = SeededRandom(seed: 1)
        var (steps, changes) = (0, 0)
        while steps < 100_000 {
            var walk = try ReleaseWalk(&random)
            for _ in 0..<25 { walk.step(&random) }
            steps += 25
            changes += walk.changes
            #expect(walk.problems.isEmpty, "\(walk.problems)")
            if !walk.problems.isEmpty { return }
        }
        // Walks in which all is refused, or nothing, show nothing.
        #expect((steps / 20..<steps / 2).contains(changes))
    }

    @Test(arguments: ReleaseWalk.Fault.allCases)
    func plantedFaultsAreFound(_ fault: ReleaseWalk.Fault) throws {
        var random = SeededRandom(seed: 2)
        for _ in 0..<500 {
            var walk = try ReleaseWalk(&random, fault)
            for _ in 0..<25 { walk.step(&random) }
            if !walk.problems.isEmpty { return }
        }
        Issue.record("\(fault) is not found")
    }
}

struct ReleaseWalk {
    enum Fault: CaseIterable {
        case pausedReleaseGoesOn, restartForgetsAStage, restartGoesFurther, endedReleaseChanges, sequenceRepeats
        case clockJumpIsAStep, rollbackKeepsCovering, resumeKeepsItsTime, refusalLeavesATrace
    }

    private enum Action: CaseIterable {
        case begin, advance, promote, pause, resume, finish, rollBack, supersede, restart, wait, clockBack, whatIsDue
    }

    private var release: Release
    private let fault: Fault?
    private var now = Timestamp(microseconds: 1_700_000_000_000_000)
    private var sequence: CommitSequence = 10
    private var version: VersionNumber = 2
    private(set) var changes = 0
    private(set) var problems: [String] = []

    init(_ random: inout SeededRandom, _ fault: Fault? = nil) throws {
        self.fault = fault
        let stages: [JSONValue] = [["100%"], ["1%", "100%"], ["1%", "10%", "50%", "100%"]]
        let policy = try ReleasePolicy(
            json: [
                "stages": stages[Int(random.next() % 3)], "every": random.next() % 4 == 0 ? "0s" : "2m",
                "bake": random.next() % 3 == 0 ? "0s" : "10m",
            ])
        release = Release(scope: .demo, version: 2, base: 1, policy: policy)
    }

    mutating func step(_ random: inout SeededRandom) {
        guard let action = Action.allCases.randomElement(using: &random) else { return }
        let before = release
        let due = release.due(at: now)
        var isRefused = false
        do throws(Release.Refusal) { try take(action, due, &random) } catch { isRefused = true }
        plant(action, before, isRefused: isRefused)
        if release != before { changes += 1 }
        check(action, before, due, isRefused: isRefused)
    }

    private mutating func take(
        _ action: Action, _ due: Release.Step?, _ random: inout SeededRandom
    ) throws(Release.Refusal) {
        switch action {
        case .begin: try release.begin(sequence: next(), at: now)
        case .advance: try release.advance(sequence: next(), at: now, by: "key:ada")
        case .promote: try release.promote(sequence: next(), at: now, by: "key:ada", reason: "it is well")
        case .pause: try release.pause(at: now, by: "gate:loss", reason: "too many", figures: ["value": .double(4.1)])
        case .resume: try release.resume(at: now, by: "key:ada")
        case .finish: try release.finish(at: now)
        // Ends are rare, or no walk is long.
        case .rollBack where random.next() % 24 == 0: try release.rollBack(to: later(), at: now, by: "key:ada")
        case .supersede where random.next() % 24 == 0: try release.supersede(by: later(), at: now, by: "key:ada")
        // Records are slow to write and to read.
        case .restart: if random.next() % 3 == 0 { restart(random.next() % 8 == 0) }
        case .wait: now = now.advanced(by: .seconds(Int64(random.next() % 900)))
        case .clockBack: now = now.advanced(by: .seconds(-Int64(random.next() % 900)))
        case .whatIsDue:
            switch due {
            case .advance: try release.advance(sequence: next(), at: now, by: Release.schedule)
            case .finish: try release.finish(at: now)
            case nil: break
            }
        case .rollBack, .supersede: break
        }
    }

    private mutating func next() -> CommitSequence {
        sequence += 1
        return sequence
    }

    private mutating func later() -> VersionNumber {
        version = version.next ?? version
        return version
    }

    /// - Parameter asBytes: through the bytes of the database.
    private mutating func restart(_ asBytes: Bool) {
        var record = release.record
        if asBytes, let parsed = try? JSONValue.parse(record.encoded()) { record = parsed }
        guard let read = Release(record: record) else { return problems.append("the record of \(release) is not read") }
        release = read
    }

    private mutating func plant(_ action: Action, _ before: Release, isRefused: Bool) {
        let last = before.reached.last
        switch (fault, action) {
        case (.pausedReleaseGoesOn, .wait) where before.state == .paused && before.told < 10_000:
            release.reached.append(Release.Reached(stage: 10_000, sequence: next(), at: now))
        case (.restartForgetsAStage, .restart) where release.reached.count > 1: release.reached.removeLast()
        case (.restartGoesFurther, .restart) where before.state == .ramping:
            release.reached.append(Release.Reached(stage: 10_000, sequence: next(), at: now))
        case (.endedReleaseChanges, .resume) where before.state == .rolledBack: release.state = .ramping
        case (.sequenceRepeats, .advance) where !isRefused:
            if let last { release.reached[release.reached.count - 1] = again(last, release.told) }
        case (.clockJumpIsAStep, .clockBack) where before.state == .ramping:
            try? release.advance(sequence: next(), at: now, by: Release.schedule)
        case (.rollbackKeepsCovering, .rollBack) where !isRefused && release.state == .rolledBack:
            release.state = .released
        case (.resumeKeepsItsTime, .resume) where !isRefused: release.since = before.since
        case (.refusalLeavesATrace, .finish) where isRefused: release.since = now
        default: break
        }
    }

    private func again(_ last: Release.Reached, _ stage: Int) -> Release.Reached {
        Release.Reached(stage: stage, sequence: last.sequence, at: now)
    }

    private mutating func check(_ action: Action, _ before: Release, _ due: Release.Step?, isRefused: Bool) {
        func claim(_ isTrue: Bool, _ sentence: String) {
            if !isTrue { problems.append("\(action) of \(before.state): \(sentence)") }
        }
        let hasEnded = release.state == .rolledBack || release.state == .superseded
        claim(release.covered >= before.covered || hasEnded, "fewer clients are covered")
        claim(!hasEnded || release.covered == 0, "an ended release covers clients")
        claim(before.isOpen || release == before, "an ended release changes")
        claim(!isRefused || release == before, "a refusal changes something")
        let grows = release.covered > before.covered
        claim(!grows || before.state != .paused || [.advance, .promote].contains(action), "a paused release grows")
        claim(!grows || [.begin, .advance, .promote, .whatIsDue].contains(action), "it grows by itself")
        claim(![.restart, .wait, .clockBack].contains(action) || release == before, "it changes by itself")
        claim(
            (action == .rollBack || action == .supersede) || release.successor == before.successor, "it has a successor"
        )
        claim(action != .rollBack || release == before || release.state == .rolledBack, "it is not rolled back")
        let pairs = zip(release.reached, release.reached.dropFirst())
        claim(pairs.allSatisfy { $0.stage < $1.stage && $0.sequence < $1.sequence }, "stages or sequences do not grow")
        claim(release.events.count <= Release.maxEvents, "there are too many events")
        if let since = before.since, due != nil {
            let time = before.state == .baking ? before.policy.bake : before.policy.every
            claim(now >= since.advanced(by: time) || action == .clockBack, "a step is due before its time")
        }
        if action == .resume, !isRefused { claim(release.since == now || release.told == 0, "a stage's time goes on") }
    }
}
