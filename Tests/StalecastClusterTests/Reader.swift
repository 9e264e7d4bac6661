import StalecastCluster
import StalecastRecords
import StalecastWire

/// An application: it listens at a node, goes to another one now and then, and fetches anywhere.
final class Reader {
    private unowned let world: World
    private(set) var node: Node?
    private var epoch: Epoch?
    private var cursor: CommitSequence = 0
    private var told: [Scope: VersionNumber] = [:]
    /// Versions told by the present connection.
    private var toldHere: [Scope: VersionNumber] = [:]
    /// Sequence that this connection has said last.
    private var last: CommitSequence = 0
    /// Sequence of the cursor that the connection's client brought: nothing up to it is news.
    private var silentUpTo: CommitSequence = 0

    init(in world: World) { self.world = world }

    /// Connects anew, wherever, with its cursor.
    func move() {
        let next = world.nodes.randomElement(using: &world.random)!
        guard next.isAlive, let epoch = next.epoch else { return }
        node = next
        (last, silentUpTo, toldHere) = (0, 0, [:])
        if epoch == self.epoch { silentUpTo = cursor } else { begin(epoch) }
    }

    func hungUp() { node = nil }

    /// The node has another history now.
    func reset() {
        if let epoch = node?.epoch, epoch != self.epoch { begin(epoch) }
        (last, silentUpTo, toldHere) = (0, 0, [:])
    }

    private func begin(_ epoch: Epoch) {
        self.epoch = epoch
        (cursor, told) = (0, [:])
    }

    func heard(_ entry: LogEntry, _ epoch: Epoch) {
        guard epoch == self.epoch, entry.sequence > silentUpTo else { return }
        if entry.sequence <= last { world.history.blame("cursor \(entry.sequence) after \(last) on one stream", epoch) }
        last = entry.sequence
        let before = told[entry.change.scope] ?? 0
        if entry.change.version < before {
            world.history.blame("version \(entry.change.version) after \(before) on one stream", epoch)
        }
        cursor = max(cursor, entry.sequence)
        told[entry.change.scope] = max(before, entry.change.version)
        toldHere[entry.change.scope] = told[entry.change.scope]
        if world.chance(0.6) { fetch() }
    }

    // MARK: Fetching

    func fetch() {
        guard let epoch, let scope = world.scopes.randomElement(using: &world.random) else { return }
        switch Int.random(in: 0..<3, using: &world.random) {
        case 0: fetchWithCursor(scope, epoch)
        case 1: fetchVerified(scope, at: world.nodes.randomElement(using: &world.random)!)
        default:
            // Where it was told there is no need to look anywhere.
            guard let node, node.isAlive else { return }
            check(node, scope, epoch, atLeast: toldHere[scope] ?? 0, "where it was told")
        }
    }

    private func fetchWithCursor(_ scope: Scope, _ epoch: Epoch) {
        let node = world.nodes.randomElement(using: &world.random)!
        guard node.isAlive, node.epoch == epoch else { return }
        let (cursor, least) = (cursor, told[scope] ?? 0)
        guard node.head.sequence < cursor else { return check(node, scope, epoch, atLeast: least, "with a cursor") }
        node.ask { [unowned self] isDone in
            // Else it is refused.
            guard isDone, node.head.sequence >= cursor else { return }
            check(node, scope, epoch, atLeast: least, "with a cursor")
        }
    }

    func fetchVerified(_ scope: Scope, at node: Node) {
        guard node.isAlive else { return }
        let least = world.log.current(scope)?.change.version ?? 0
        let (generation, epoch) = (world.log.generation, world.log.logMetadata.epoch)
        node.verified { [unowned self] isVerified in
            guard isVerified, world.log.generation == generation else { return }
            check(node, scope, epoch, atLeast: least, "verified")
        }
    }

    private func check(
        _ node: Node, _ scope: Scope, _ epoch: Epoch, atLeast least: VersionNumber, _ way: String
    ) {
        guard node.epoch == epoch, node.follower.isWhole else { return }
        let version = node.visible[scope]?.change.version ?? 0
        if version < least { world.history.blame("fetch \(way): version \(version), not \(least)", epoch) }
    }
}
