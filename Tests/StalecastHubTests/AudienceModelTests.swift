import StalecastHub
import StalecastTestSupport
import StalecastWire
import Synchronization
import Testing

/// Random histories of clients and publishes. A publish neither counts the clients that are present nor gathers its
/// audience; both must come out as a pass over all clients at the announcement says.
@Suite struct AudienceModelTests {
    /// A crowd that hears of nothing but what a history says.
    private struct World {
        let crowd: Crowd
        let loop: Int
        private let ratios = Ratios()

        private final class Ratios: Sendable { let last = Mutex(1.0) }

        init(cap: Int) {
            var limits = RolloutTracker.Limits()
            limits.clients = cap
            crowd = Crowd(limits)
            loop = crowd.book.addLoop()
            crowd.book.beginSharing()
            let ratios = ratios
            _ = crowd.hub.attach { event in
                guard case .announcement(let announcement) = event else { return }
                ratios.last.withLock {
                    $0 = announcement.encodedMessages.first?.encodedMessage.message.reportRatio ?? 1
                }
            }
        }

        var book: RolloutTracker { crowd.book }
        /// Share of the clients that the last message asked to report.
        var ratio: Double { ratios.last.withLock(\.self) }

        func publish(_ version: VersionNumber, _ sequence: CommitSequence, _ scope: Scope, _ keys: [String]) {
            crowd.hub.announce(.make(version, sequence: sequence, scope: scope, keys: keys), at: 0)
        }
    }

    private enum Step {
        case join(Int, topic: Int, have: Int64), leave(Int), fetch(Int, behind: Int64), claim(Int)
        case told(streams: Int), elsewhere(Int, isHere: Bool), nodesGone, wait(UInt64), move(Int)

        static func random(_ clients: Int, using random: inout SeededRandom) -> Step {
            let client = Int.random(in: 0..<clients, using: &random)
            switch Int.random(in: 0..<24, using: &random) {
            case 0..<7:
                return .join(
                    client, topic: .random(in: 0..<3, using: &random), have: .random(in: 0...3, using: &random))
            case 7..<11: return .leave(client)
            case 11..<16: return .fetch(client, behind: .random(in: 0...1, using: &random))
            case 16: return .claim(client)
            case 17, 18: return .told(streams: .random(in: 0...9, using: &random))
            case 19: return .elsewhere(client, isHere: .random(using: &random))
            case 20: return .nodesGone
            case 21: return .move(client)
            default: return .wait(.random(in: 0...8000, using: &random))
            }
        }

        func take(_ world: World, newest: [Scope: VersionNumber], _ sequence: CommitSequence) {
            let (book, demo) = (world.book, newest[.demo] ?? 0)
            let board = world.crowd.hub.board
            switch self {
            case .join(let client, let topic, let have):
                let version = VersionNumber(clamping: max(0, demo.rawValue - have))
                world.crowd.join(
                    "c\(client)", topic: [board.push, board.payTopic, board.pushServer][topic],
                    have: version > 0 ? version : nil)
            case .leave(let client): world.crowd.leave("c\(client)")
            case .fetch(let client, let behind):
                world.crowd.fetch("c\(client)", VersionNumber(clamping: max(1, demo.rawValue - behind)))
            case .claim(let client): try? world.crowd.claim("c\(client)", ClientReport(.active, demo))
            case .told(let streams):
                var counts = StreamCounts()
                counts.streams = streams
                book.note(counts, of: world.loop, in: .demo, sequence)
            case .elsewhere(let client, let isHere):
                book.setNodes(["other"])
                book.seenElsewhere(
                    RolloutTracker.ForeignFetch(
                        key: Crowd.client("c\(client)").key(in: .demo), scope: .demo, fetched: demo, active: 0,
                        isHere: isHere, node: "other"))
            case .nodesGone: book.setNodes([])
            case .wait(let milliseconds): world.crowd.wait(milliseconds)
            case .move(let client):
                book.moved([Crowd.client("c\(client)").key(in: .demo)], to: [board.push], in: .demo, by: demo)
            }
        }
    }

    /// One world is read after each publish, so that its audience is gathered there; the other one only at times. A cap
    /// of 32 makes samples.
    @Test(arguments: 0..<12 as Range<UInt64>, [32, 65_536])
    func anAudienceThatIsGatheredLaterIsTheSame(seed: UInt64, cap: Int) {
        var random = SeededRandom(seed: seed)
        let (read, unread) = (World(cap: cap), World(cap: cap))
        var (newest, sequence) = ([Scope: VersionNumber](), CommitSequence(0))
        for _ in 0..<300 {
            if Int.random(in: 0..<8, using: &random) == 0 {
                let scope: Scope = Int.random(in: 0..<4, using: &random) == 0 ? .server : .demo
                sequence += 1
                newest[scope] = (newest[scope] ?? 0).next
                let keys = [["welcome"], ["pay_card"]].randomElement(using: &random) ?? []
                for world in [read, unread] { world.publish(newest[scope] ?? 0, sequence, scope, keys) }
                _ = read.book.figures
            }
            let step = Step.random(60, using: &random)
            for world in [read, unread] { step.take(world, newest: newest, sequence) }
            guard Int.random(in: 0..<30, using: &random) == 0 else { continue }
            for scope in [Scope.demo, .server] {
                #expect(read.book.propagations(of: scope) == unread.book.propagations(of: scope))
                #expect(read.book.audience(of: scope, topics: nil) == unread.book.audience(of: scope, topics: nil))
            }
            #expect(Set(read.book.takeForeignFetches()) == Set(unread.book.takeForeignFetches()))
        }
        var (one, other) = (read.book.figures, unread.book.figures)
        // The allocator decides how much room a list has.
        (one.byteCount, other.byteCount) = (0, 0)
        #expect(one == other && read.book.seconds == unread.book.seconds)
    }

    /// Checks that a publish counts what a pass over the clients found before it, after any changes until that is read.
    @Test(arguments: 0..<8 as Range<UInt64>) func aPublishCountsWhatAPassOverAllClientsSays(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let world = World(cap: 65_536)
        let topics = Set([world.crowd.hub.board.push])
        for number in 0..<1500 { world.crowd.join("c\(number)") }
        for version in 1...12 as ClosedRange<VersionNumber> {
            let scan = world.book.audience(of: .demo, topics: topics)
            let all = world.book.audience(of: .demo, topics: nil).clients
            world.publish(version, CommitSequence(version.rawValue), .demo, ["welcome"])
            #expect(world.ratio == min(1, 1000 / Double(all)))
            for _ in 0..<200 {
                let step = Step.random(1500, using: &random)
                // Clients of other nodes are in their audience.
                if case .elsewhere = step { continue }
                // A client that moves enters or leaves an audience.
                if case .move = step { continue }
                step.take(world, newest: [.demo: version], CommitSequence(version.rawValue))
            }
            #expect(world.crowd.clients(version).audience == scan.clients)
        }
    }
}
