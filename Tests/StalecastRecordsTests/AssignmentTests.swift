import StalecastRecords
import StalecastTestSupport
import Testing

/// Three nodes and four assignments in ``AssignmentWorld``, and the counting of one lease. What it cannot show: a
/// process that stands still in the middle of an attempt.
@Suite struct AssignmentTests {
    @Test func neverTwoAttemptsAtOnce() {
        var begun = 0
        let worlds = Simulations.schedules / 20
        for seed in 0..<worlds {
            let world = AssignmentWorld(seed: seed)
            world.run()
            #expect(world.overlaps == 0, "seed \(seed)")
            #expect(world.idle == [], "seed \(seed)")
            begun += world.begun
        }
        #expect(begun > 10 * Int(worlds))
    }

    @Test(arguments: AssignmentWorld.Bug.allCases) func twoOwnersAreFound(_ bug: AssignmentWorld.Bug) {
        let found = (0..<Simulations.searched).first { seed in
            let world = AssignmentWorld(seed: seed, bug)
            world.run()
            return world.overlaps > 0
        }
        print("two owners, \(bug): found at seed \(found.map(String.init) ?? "none")")
        #expect(found != nil)
    }

    @Test func anAttemptMustEndBeforeTheLease() {
        var lease = AssignmentLease()
        #expect(lease.permit(.seconds(1), now: .zero) == nil)
        lease.taken(7, sent: .seconds(100))
        #expect(lease.permit(.seconds(30), now: .seconds(113)) == 7)
        #expect(lease.permit(.seconds(30), now: .seconds(114)) == nil)
        lease.renewed(sent: .seconds(110))
        #expect(lease.permit(.seconds(30), now: .seconds(123)) == 7)
        // One that was sent before and arrives after says nothing new.
        lease.renewed(sent: .seconds(90))
        #expect(lease.permit(.seconds(30), now: .seconds(123)) == 7)
    }

    /// Leases are renewed each 10 s, looked at each second: an attempt of 30 s fits in at any time.
    @Test func theLongestAttemptAlwaysFits() {
        var lease = AssignmentLease()
        lease.taken(7, sent: .zero)
        for second in 0...11 { #expect(lease.permit(.seconds(30), now: .seconds(second)) == 7) }
    }

    @Test func aNodeThatLeavesHasNoAssignmentUnlessAllLeave() {
        var leaving = NodeRecord()
        leaving.isLeaving = true
        #expect(NodeRecord(leaving.encoded).isLeaving && !NodeRecord(NodeRecord().encoded).isLeaving)
        var nodes = LivingNodes()
        for node in ["a", "b"] { nodes.heard(NodeRecord(), of: node, now: .seconds(1)) }
        let assignments = (0..<64).map { "webhooks-\($0)" }
        let before = assignments.map { nodes.owner(of: $0) }
        nodes.heard(leaving, of: "a", now: .seconds(20))
        #expect(assignments.allSatisfy { nodes.owner(of: $0) == "b" })
        #expect(nodes.isStable(for: .seconds(10), now: .seconds(20)), "the next owner need not wait")
        nodes.heard(leaving, of: "b", now: .seconds(21))
        #expect(assignments.map { nodes.owner(of: $0) } == before)
        nodes.heard(NodeRecord(), of: "a", now: .seconds(30))
        #expect(!nodes.isStable(for: .seconds(10), now: .seconds(39)), "what may leave again gets nothing back at once")
    }

    /// Lets a node leave that still lives until it has drained: others take its assignments meanwhile.
    @Test func assignmentsOfANodeThatLeavesAreTaken() {
        var leaving = NodeRecord()
        leaving.isLeaving = true
        var (a, b) = (Assignments(node: "a"), Assignments(node: "b"))
        let names = Set((0..<8).map { "webhooks-\($0)" })
        b.wanted(names)
        b.renewed(1, sent: .seconds(20))
        for node in ["a", "b"] { b.heard(NodeRecord(), of: node, now: .zero) }
        let own = b.due(now: .seconds(20)).count
        #expect(own < 8)
        b.heard(leaving, of: "a", now: .seconds(21))
        #expect(b.due(now: .seconds(21)).count == 8 - own)
        // And its own board gives up what it holds.
        a.wanted(["d"])
        a.renewed(1, sent: .seconds(20))
        a.heard(NodeRecord(), of: "a", now: .zero)
        #expect(a.due(now: .seconds(20)) == [.take("d", 1)])
        a.stored("d", 7, isOurs: true)
        a.taken("d", 7, under: 1)
        a.heard(leaving, of: "a", now: .seconds(21))
        #expect(a.due(now: .seconds(21)) == [.begin("d", 7)], "no other node is there")
        a.heard(NodeRecord(), of: "b", now: .seconds(22))
        #expect(a.due(now: .seconds(31)) == [])
        #expect(a.due(now: .seconds(32)) == [.giveUp("d", 7)])
    }

    @Test func assignmentsAreCountedByKind() {
        var board = Assignments(node: "a")
        board.wanted(["webhooks-00", "webhooks-01", "source/demo/firebase"])
        board.heard(NodeRecord(), of: "a", now: .zero)
        board.renewed(1, sent: .seconds(1))
        var figures = board.figures(now: .seconds(20))
        #expect(figures.kinds["webhooks"]! == (wanted: 2, held: 0, unowned: 2) && figures.leaseLeft == nil)
        #expect(figures.kinds["source"]! == (wanted: 1, held: 0, unowned: 1))
        _ = board.due(now: .seconds(20))
        for (name, token) in [("webhooks-00", Int64(7)), ("source/demo/firebase", 8)] {
            board.stored(name, token, isOurs: true)
            board.taken(name, token, under: 1)
        }
        board.stored("webhooks-01", 9, isOurs: false)
        figures = board.figures(now: .seconds(20))
        #expect(figures.kinds["webhooks"]! == (wanted: 2, held: 1, unowned: 0))
        #expect(figures.leaseLeft == .seconds(26), "45 s from when the lease was asked for")
    }

    @Test func aRecordCountsUnderItsOwnLease() {
        var board = Assignments(node: "a")
        board.wanted(["d"])
        board.heard(NodeRecord(), of: "a", now: .zero)
        board.renewed(1, sent: .seconds(1))
        #expect(board.due(now: .seconds(20)) == [.take("d", 1)])
        board.leaseEnded()
        board.renewed(2, sent: .seconds(50))
        board.stored("d", 7, isOurs: true)
        // It was made under the lease that has ended, and goes with it.
        board.taken("d", 7, under: 1)
        #expect(board.permit("d", .zero, now: .seconds(50)) == nil)
        #expect(board.due(now: .seconds(50)) == [.discard("d", 7)])
        board.stored("d", nil, isOurs: false)
        board.gaveUp("d")
        #expect(board.due(now: .seconds(51)) == [.take("d", 2)])
        board.stored("d", 9, isOurs: true)
        board.taken("d", 9, under: 2)
        #expect(board.due(now: .seconds(51)) == [.begin("d", 9)])
        #expect(board.permit("d", .seconds(30), now: .seconds(60)) == 9)
        // The assignment was not renewed for 45 s: it is not used any more.
        #expect(board.due(now: .seconds(96)) == [.lost("d")])
        // While the records do not answer, no removal is asked for.
        #expect(board.due(now: .seconds(97)) == [])
        board.renewed(3, sent: .seconds(100))
        #expect(board.due(now: .seconds(100)) == [.discard("d", 9)])
    }

    @Test func anAssignmentMovesWhenTheNodesAreCalm() {
        var board = Assignments(node: "a")
        board.wanted(["webhooks-00", "webhooks-01", "webhooks-02", "webhooks-03"])
        board.renewed(1, sent: .zero)
        board.heard(NodeRecord(), of: "a", now: .zero)
        let taken = board.due(now: .zero)
        #expect(taken.count == 4)
        for case (let token, .take(let name, let lease)) in taken.enumerated() {
            board.stored(name, Int64(token), isOurs: true)
            board.taken(name, Int64(token), under: lease)
        }
        #expect(board.due(now: .zero).count == 4)
        board.heard(NodeRecord(), of: "b", now: .seconds(20))
        board.renewed(1, sent: .seconds(20))
        #expect(board.due(now: .seconds(29)).isEmpty)
        let moved = board.due(now: .seconds(30))
        #expect((1...3).contains(moved.count))
        for case .giveUp(let name, let token) in moved {
            #expect(board.permit(name, .zero, now: .seconds(30)) == nil)
            board.stored(name, nil, isOurs: false)
            board.gaveUp(name)
            #expect(token >= 0 && board.due(now: .seconds(31)).isEmpty)
        }
        board.stop()
        let rest = board.due(now: .seconds(31))
        #expect(rest.count == 4 - moved.count && !board.hasStopped)
        for case .giveUp(let name, _) in rest { board.gaveUp(name) }
        #expect(board.hasStopped && board.due(now: .seconds(32)).isEmpty)
    }

    @Test func fewAssignmentsMoveWhenANodeComes() {
        var nodes = LivingNodes()
        for node in ["a", "b", "c"] { nodes.heard(NodeRecord(), of: node, now: .seconds(1)) }
        let assignments = (0..<64).map { "webhooks-\($0)" }
        let before = assignments.map { nodes.owner(of: $0) }
        for node in ["a", "b", "c"] { #expect(before.filter { $0 == node }.count > 10) }
        nodes.heard(NodeRecord(), of: "d", now: .seconds(2))
        let after = assignments.map { nodes.owner(of: $0) }
        let moved = zip(before, after).filter { $0 != $1 }
        #expect(moved.allSatisfy { $0.1 == "d" } && (5...30).contains(moved.count))
        // Its record changes, it stays.
        nodes.heard(NodeRecord(), of: "d", now: .seconds(9))
        #expect(nodes.isStable(for: .seconds(10), now: .seconds(12)))
        nodes.heard(nil, of: "d", now: .seconds(12))
        #expect(!nodes.isStable(for: .seconds(10), now: .seconds(21)))
        #expect(assignments.map { nodes.owner(of: $0) } == before)
    }
}
