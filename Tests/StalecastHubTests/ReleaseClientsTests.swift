import StalecastHub
import StalecastTestSupport
import StalecastWire
import Testing

private let address: RolloutTracker.Address = (key: 0, isLimited: false)

/// Counts for the gates of a release, over the nodes of a cluster: each client is counted once, wherever it listens,
/// fetches and reports.
@Suite struct ReleaseClientsTests {
    /// Nodes whose messages arrive late, each in the order in which it was sent.
    private struct Cluster {
        let hubs: [Hub]
        /// Messages from one node to another.
        var lines: [[[RolloutTracker.ForeignFetch]]]
        var told = 0

        init(_ count: Int) {
            hubs = (0..<count).map { _ in Hub(board: .make()) }
            lines = Array(repeating: Array(repeating: [], count: count), count: count)
            for hub in hubs {
                hub.propagation.beginSharing()
                hub.announce(.make(1), at: 1)
            }
        }

        func book(_ node: Int) -> RolloutTracker { hubs[node].propagation }

        func announce(_ version: VersionNumber) {
            for hub in hubs {
                hub.announce(.make(version, sequence: hub.headSequence + 1), at: 1)
            }
        }

        func join(_ name: String, have: VersionNumber? = 1, at node: Int) {
            let (hub, client) = (hubs[node], ClientIdentity(name)!)
            _ = hub.propagation.join(
                client, of: [hub.board.push], on: hub.board, from: ResumePoint(have: have), isPoll: false,
                address: address
            )
        }

        func fetch(_ name: String, _ version: VersionNumber, at node: Int) {
            book(node).fetched(ClientIdentity(name), .demo, version, address: address)
        }

        /// - Returns: whether the node knows the client.
        func report(_ name: String, _ report: ClientReport, at node: Int) -> Bool {
            (try? book(node).claimed(ClientIdentity(name)!, .demo, report, address: address)) != nil
        }

        /// A node writes what it has to tell.
        mutating func tell(_ node: Int) {
            let told = book(node).takeForeignFetches()
            self.told += told.count
            for other in hubs.indices where other != node { lines[node][other] += told }
        }

        /// A node reads what another has written.
        mutating func hear(_ node: Int, from other: Int) {
            for told in lines[other][node] {
                book(node).seenElsewhere(
                    RolloutTracker.ForeignFetch(
                        key: told.key, scope: told.scope, fetched: told.fetched, active: told.active,
                        failed: told.failed, isCounted: told.isCounted, wins: other < node))
            }
            lines[other][node] = []
        }

        /// Runs until no node has anything to tell.
        mutating func settle() {
            var before = -1
            while before != told || lines.contains(where: { !$0.allSatisfy(\.isEmpty) }) {
                before = told
                for node in hubs.indices { for other in hubs.indices { hear(node, from: other) } }
                for node in hubs.indices { tell(node) }
            }
        }

        func clients(_ version: VersionNumber) -> ReleaseClients {
            hubs.reduce(ReleaseClients()) { $0 + $1.propagation.clients(ofRelease: version, in: .demo) }
        }
    }

    @Test func aClientThatFetchesAtSeveralNodesCountsOnce() {
        var cluster = Cluster(3)
        cluster.join("a", at: 0)
        cluster.announce(2)
        for node in 0..<3 { cluster.fetch("a", 2, at: node) }
        for node in 0..<3 { cluster.fetch("b", 2, at: node) }
        #expect(cluster.clients(2).fetched == 6, "until they have told each other")
        cluster.settle()
        #expect(cluster.clients(2).fetched == 2 && cluster.clients(2).failed == 0)
        #expect(
            cluster.report("a", ClientReport(.failed, 2), at: 0) && cluster.report("b", ClientReport(.failed, 2), at: 2)
        )
        #expect(cluster.report("a", ClientReport(.failed, 2), at: 1))
        cluster.settle()
        #expect(cluster.clients(2).fetched == 2 && cluster.clients(2).failed == 2)
        #expect(cluster.report("b", ClientReport(.active, 2), at: 1))
        cluster.settle()
        #expect(cluster.clients(2).failed == 1)
        // A newer version is counted anew.
        cluster.announce(3)
        cluster.fetch("b", 3, at: 2)
        cluster.settle()
        #expect(cluster.clients(3).fetched == 1)
    }

    /// A loop moves its clients after the first stage was announced, and before the second release they sit where the
    /// first one had put them.
    @Test func theFirstStageCountsTheClientsThatAreToldOfIt() throws {
        let hub = Hub(board: .make([.make(1)]))
        let names = (0..<60).map { "client-\($0)" }
        for name in names {
            _ = hub.propagation.join(
                ClientIdentity(name)!, of: [hub.board.push], on: hub.board, from: ResumePoint(have: 1), isPoll: false,
                address: address)
        }
        for version in [2, 4] as [VersionNumber] {
            let cut = ReleaseCut(.demo, version, bounds: [4000, 10_000])
            let covered = names.filter { cut.stage(of: ClientKey(id: $0)) == 0 }
            hub.split(.demo, by: cut)
            let change = TemplateChange.make(version, sequence: hub.headSequence + 1)
            hub.announce(change, to: ReleaseAudience(stages: 0..<1, isWhole: false), at: 1)
            for name in names {
                let seat = hub.board.seat(of: hub.board.push, for: ClientKey(id: name))
                let key = ClientIdentity(name)!.key(in: .demo)
                hub.propagation.moved([key], to: [seat], in: .demo, by: version)
            }
            for name in covered.dropFirst(3) {
                hub.propagation.fetched(ClientIdentity(name), .demo, version, address: address)
            }
            let clients = hub.propagation.clients(ofRelease: version, in: .demo)
            #expect(clients.reach.told == covered.count && clients.reach.fetched == covered.count - 3)
            #expect(hub.propagation.propagation(of: .demo, version)?.clients.behind == 3)
            for name in covered { hub.propagation.fetched(ClientIdentity(name), .demo, version, address: address) }
            let whole = ReleaseAudience(stages: 0..<1, isWhole: true)
            hub.announce(.make(version + 1, sequence: hub.headSequence + 1), to: whole, at: 1)
        }
    }

    @Test func aFailureOfAClientThatDidNotFetchIsNoShareOfThoseThatDid() {
        let cluster = Cluster(1)
        cluster.join("a", at: 0)
        cluster.announce(2)
        #expect(cluster.report("a", ClientReport(.failed, 2), at: 0))
        #expect(cluster.clients(2).fetched == 0 && cluster.clients(2).failed == 0)
    }

    @Test(arguments: 0..<40) func eachClientIsCountedByOneNodeWhateverComesFirst(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        func below(_ count: Int) -> Int { Int(random.next() % UInt64(count)) }
        var cluster = Cluster(2 + below(3))
        var (newest, failed): (VersionNumber, Set<String>) = (1, [])
        var has: [String: VersionNumber] = [:]
        for _ in 0..<600 {
            let (node, name) = (below(cluster.hubs.count), "client-\(below(25))")
            switch below(12) {
            // A client that listens at two nodes would count at both.
            case 0: cluster.join(name, have: below(2) == 0 ? 1 : nil, at: name.utf8.count % cluster.hubs.count)
            case 1..<6:
                // A client that is not of a stage yet gets the version before.
                let version = newest > 1 && below(2) == 0 ? newest - 1 : newest
                cluster.fetch(name, version, at: node)
                has[name] = max(has[name] ?? 0, version)
            case 6: if cluster.report(name, ClientReport(.failed, newest), at: node) { failed.insert(name) }
            case 7: cluster.tell(node)
            case 8, 9: cluster.hear(node, from: below(cluster.hubs.count))
            case 10 where newest < 5 && below(20) == 0:
                newest = newest + 1
                failed = []
                cluster.announce(newest)
            case 11 where below(4) == 0: cluster.announce(newest)
            default: break
            }
        }
        cluster.settle()
        if newest > 1 { #expect(cluster.clients(newest).fetched == has.values.count { $0 >= newest }) }
        if newest > 1 { #expect(cluster.clients(newest).failed == failed.count { has[$0] == newest }) }
        #expect(cluster.told < 6000, "they come to an end")
    }
}
