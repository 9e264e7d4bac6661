import StalecastEdge
import StalecastHub
import StalecastTestSupport
import StalecastWire
import Testing

/// Versions of a burst that some streams never get, because a newer one took their place.
@Suite struct PassedOverTests {
    /// PUSH_RC hears of each version, `x` of those that change a parameter of its own.
    private static let topics = [
        LoneShard.push,
        TopicBinding(name: try! TopicName("x"), scopes: [LiveEdge.scope], keys: [try! KeyPattern("x_*")]),
    ]
    private static let both = "topic=PUSH_RC&topic=x"

    private static func state(_ carrier: MemoryCarrier, _ version: VersionNumber) throws -> RolloutStatus {
        try #require(carrier.hub.propagation.propagation(of: LiveEdge.scope, version))
    }

    @Test func versionsThatOneBatchReplacesWereSentToNoStream() throws {
        let carrier = MemoryCarrier()
        let clients = try (0..<5).map { _ in try carrier.stream() }
        for _ in 1...3 { carrier.announce() }
        carrier.takeEvents()
        #expect(clients.allSatisfy { $0.versions == [3] })
        for version in [1, 2] as [VersionNumber] {
            let status = try Self.state(carrier, version)
            #expect(status.state == .superseded && status.streams.told == 0 && status.streams.streams == 5)
            #expect(status.sent.last == nil)
        }
        let newest = try Self.state(carrier, 3)
        #expect(newest.state == .converged && newest.streams.told == 5)
    }

    @Test func aVersionThatIsHeldBackAndReplacedWasSentToNoStream() throws {
        let carrier = MemoryCarrier()
        let client = try carrier.firebase()
        for _ in 1...3 { carrier.publish() }
        carrier.pass(300)
        #expect(client.versions == [1, 3])
        #expect(try Self.state(carrier, 1).state == .converged && Self.state(carrier, 3).state == .converged)
        let passedOver = try Self.state(carrier, 2)
        #expect(passedOver.state == .superseded && passedOver.streams.told == 0)
    }

    @Test func aStreamOfSeveralTopicsGetsAVersionOnOneOfThem() throws {
        let carrier = MemoryCarrier(topics: Self.topics)
        let clients = try [carrier.stream(Self.both), carrier.stream()]
        carrier.announce(keys: ["x_1"])
        carrier.announce(keys: ["y"])
        carrier.takeEvents()
        #expect(clients.map(\.versions) == [[1, 2], [2]])
        let first = try Self.state(carrier, 1)
        #expect(first.streams.streams == 2 && first.streams.told == 1 && first.state == .superseded)
        #expect(try Self.state(carrier, 2).state == .converged)
    }

    @Test func aStreamOfSeveralTopicsThatStallsAndEndsIsCountedOnce() throws {
        let carrier = MemoryCarrier(topics: Self.topics)
        let client = try carrier.stream(Self.both)
        _ = try carrier.stream("topic=x")
        client.room = 10
        carrier.announce(keys: ["x_1"])
        carrier.takeEvents()
        carrier.announce(keys: ["y"])
        carrier.takeEvents()
        #expect(try Self.state(carrier, 1).streams.told == 1)
        carrier.hangUp(client)
        carrier.pass(100)
        carrier.announce(keys: ["y"])
        carrier.takeEvents()
        let first = try Self.state(carrier, 1)
        #expect(first.streams.told == 1 && first.streams.left == 1 && first.streams.backlogged == 0)
    }

    @Test func aVersionWithoutAudienceStaysSoInABurst() throws {
        let carrier = MemoryCarrier()
        for _ in 1...2 { carrier.announce() }
        carrier.takeEvents()
        #expect(try Self.state(carrier, 1).state == .noAudience && Self.state(carrier, 2).state == .noAudience)
    }

    /// Compares what is counted with the texts of the clients, over streams of one topic and of several that come, go, stall and
    /// read again. Where none stalls or waits for its turn, they are equal.
    @Test(arguments: 1...60) func noVersionCountsMoreStreamsThanGotIt(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let carrier = MemoryCarrier(herdBudget: seed.isMultiple(of: 3) ? 2 : 0, topics: Self.topics)
        let (stalls, isPaced) = (seed.isMultiple(of: 2), seed.isMultiple(of: 3))
        var clients: [MemoryCarrier.Client] = []
        var ofKey: [MemoryCarrier.Client] = []
        var audiences: [[MemoryCarrier.Client]] = []
        for _ in 0..<60 {
            switch Int.random(in: 0..<10, using: &random) {
            case 0: clients.append(try carrier.stream())
            case 1:
                let isOfKey = Bool.random(using: &random)
                clients.append(try carrier.stream(isOfKey ? "topic=x" : Self.both))
                if isOfKey { ofKey.append(clients[clients.count - 1]) }
            case 2, 3: clients.append(try carrier.firebase())
            case 4...6 where audiences.count < 28:
                let here = clients.filter { !$0.isOver }
                for _ in 1...Int.random(in: 1...3, using: &random) {
                    let isOfKey = Bool.random(using: &random)
                    carrier.announce(keys: [isOfKey ? "x_1" : "y"])
                    audiences.append(here.filter { client in isOfKey || !ofKey.contains { $0 === client } })
                }
                carrier.takeEvents()
            case 7 where stalls: clients.randomElement(using: &random)?.room = 10
            case 8: clients.randomElement(using: &random).map { carrier.unblock($0) }
            case 9 where Bool.random(using: &random):
                clients.randomElement(using: &random).map { carrier.hangUp($0) }
            default: carrier.pass([100, 300, 1500, 6000].randomElement(using: &random) ?? 100)
            }
            for status in carrier.hub.propagation.propagations(of: LiveEdge.scope) {
                let audience = audiences[Int(status.version.rawValue) - 1]
                let got = audience.count { $0.versions.contains(Int(status.version.rawValue)) }
                let (told, number) = (status.streams.told, status.version)
                #expect(told <= got, "seed \(seed): version \(number) is said to be sent to \(told), \(got) got it")
                #expect(stalls || isPaced || told == got, "seed \(seed): \(number) sent to \(told), \(got) got it")
                let without = audience.filter {
                    !$0.isOver && !$0.versions.contains(Int(status.version.rawValue))
                }
                #expect(
                    status.state != .converged || without.isEmpty, "seed \(seed): version \(number) is green too early")
            }
            #expect(carrier.audience.inconsistencies() == [])
        }
    }
}
