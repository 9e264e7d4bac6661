import StalecastHub
import StalecastWire
import Synchronization
import Testing

/// Bounds of what is kept of clients: strangers, floods and samples.
@Suite struct PropagationLimitTests {
    @Test func strangersAndFloodsOfReportsCountForNothing() {
        let crowd = Crowd()
        crowd.join("a")
        crowd.publish(1)
        #expect(throws: ClientReport.Refusal.stranger) { try crowd.claim("nobody", ClientReport(.active, 1)) }
        var refused = 0
        for _ in 0..<500 {
            do throws(ClientReport.Refusal) { try crowd.claim("a", ClientReport(.active, 1)) } catch {
                if error == .budget { refused += 1 }
            }
        }
        #expect(refused == 451, "50 a second of one address")
        for address in 2..<100_000 as Range<UInt64> {
            try? crowd.claim("a", ClientReport(.active, 1), address: address)  // refused from the 2,001st on
        }
        #expect(crowd.book.claims.counted[.active] == 1999)
        crowd.wait(60 * 60 * 1000)
        crowd.leave("a")
        crowd.wait(61 * 60 * 1000)
        #expect(throws: ClientReport.Refusal.stranger) { try crowd.claim("a", ClientReport(.active, 1)) }
    }

    @Test func aFloodOfIDsOfOneAddressIsLeftUncounted() {
        let crowd = Crowd()
        for number in 0..<5000 { crowd.join("c\(number)", address: 7, isLimited: true) }
        #expect(crowd.book.figures.known == 1024)
        crowd.wait(61_000)
        crowd.join("later", address: 7, isLimited: true)
        #expect(crowd.book.figures.known == 1025)
    }

    /// Four standard errors of a binomial, and the same clients all the way.
    @Test func aboveTheCapASampleTellsTheShares() {
        var limits = RolloutTracker.Limits()
        limits.clients = 1024
        let crowd = Crowd(limits)
        for number in 0..<20_000 { crowd.join("c\(number)") }
        crowd.publish(1)
        for number in 0..<20_000 where number % 4 != 0 { crowd.fetch("c\(number)", 1) }
        let clients = crowd.clients()
        let counted = Double(clients.audience / clients.weight)
        #expect(clients.weight > 1 && counted <= 1024 && counted > 400)
        #expect(abs(Double(clients.audience) - 20_000) < 4 * (20_000 * Double(clients.weight)).squareRoot())
        let share = Double(clients.fetched) / Double(clients.awaited)
        #expect(abs(share - 0.75) < 4 * (0.75 * 0.25 / counted).squareRoot(), "\(share)")
        #expect(clients.error > 0.005 && clients.error < 0.03)
        for number in 0..<20_000 where number % 4 == 0 { crowd.fetch("c\(number)", 1) }
        #expect(crowd.clients().behind == 0 && crowd.book.propagation(of: .demo)?.state == .converged)
    }

    @Test func growingIntoASampleCountsWhatIsUnderWayAgain() {
        var limits = RolloutTracker.Limits()
        limits.clients = 1024
        let crowd = Crowd(limits)
        for number in 0..<1000 { crowd.join("c\(number)") }
        crowd.publish(1)
        for number in 0..<500 { crowd.fetch("c\(number)", 1) }
        for number in 0..<10_000 { crowd.join("later\(number)") }
        let clients = crowd.clients()
        let counted = Double(clients.audience) / Double(clients.weight)
        #expect(abs(Double(clients.fetched) / Double(clients.awaited) - 0.5) < 4 * (0.25 / counted).squareRoot())
        for number in 500..<1000 { crowd.fetch("c\(number)", 1) }
        #expect(crowd.clients().behind == 0)
    }

    @Test func aSampleGrowsAgainWhenTheFloodIsForgotten() {
        var limits = RolloutTracker.Limits()
        limits.clients = 1024
        let crowd = Crowd(limits)
        crowd.publish(1)
        for number in 0..<6000 { crowd.fetch("once\(number)", 1) }
        #expect(crowd.book.figures.weight == 8)
        // They are kept for 25 h, and each look after that takes one step.
        for _ in 0..<4 {
            crowd.wait(26 * 3600 * 1000)
            _ = crowd.book.takeSettled()
        }
        #expect(crowd.book.figures.weight == 1 && crowd.book.figures.known == 0)
        for number in 0..<21 { crowd.join("kiosk\(number)") }
        crowd.publish(2)
        #expect(crowd.clients().audience == 21)
    }

    @Test func clientsOfOneAddressTakeOnlyAPartOfTheRoomForFailures() {
        let crowd = Crowd()
        for number in 0..<300 { crowd.join("c\(number)") }
        crowd.publish(1)
        func fail(_ numbers: Range<Int>, address: UInt64) -> Int {
            numbers.count { number in
                // 50 reports in ten seconds are taken of one address.
                crowd.wait(1000)
                // A refusal is what is counted.
                return (try? crowd.claim("c\(number)", ClientReport(.failed, 1, error: "e\(number)"), address: address))
                    != nil
            }
        }
        #expect(fail(0..<290, address: 2) == 256)
        #expect(fail(0..<10, address: 2) == 10, "what is known is told anew")
        #expect(fail(290..<300, address: 3) == 10)
    }

    @Test func setsOfTopicsThatStrangersLeftBehindTakeNoRoom() throws {
        let bindings = try (0..<13).map {
            TopicBinding(name: try TopicName("t\($0)"), scopes: [.demo], keys: [try KeyPattern("k\($0)_*")])
        }
        let crowd = Crowd(bindings: bindings)
        let board = crowd.hub.board
        func join(_ name: String, _ set: Int) throws {
            let topics = try (0..<13).filter { set & 1 << $0 != 0 }
                .map { board.topics(try TopicName("t\($0)"), in: Scope.demo.project)[0] }
            _ = crowd.book.join(
                Crowd.client(name), of: topics, on: board, from: ResumePoint(), isPoll: false, address: (1, false))
        }
        for set in 1...4200 { try join("stranger\(set)", set) }
        try join("early", 1 << 12)
        for set in 1...4200 { crowd.leave("stranger\(set)") }
        crowd.wait(61_000)
        crowd.publish(1, keys: ["k0_x"])
        try join("late", 0x1FFF)
        crowd.publish(2, keys: ["k12_x"])
        #expect(crowd.clients(2).audience == 1, "the late one's set has room; of the early one's nothing was known")
        try join("early", 1 << 12)
        crowd.publish(3, keys: ["k12_x"])
        #expect(crowd.clients(3).audience == 2)
    }

    @Test func labelsOfStrangersTakeNoOthersLabelAndNoRoomForEver() {
        let crowd = Crowd()
        crowd.join("a")
        for number in 0..<4200 {
            let stranger = ClientIdentity("s\(number)", app: "app\(number)")
            crowd.book.fetched(stranger, .demo, 1, address: (1, false))
        }
        let renewed = ClientIdentity("a", app: "app", sdk: "2.0")
        crowd.book.fetched(renewed, .demo, 1, address: (1, false))
        #expect(crowd.book.client(Crowd.client("a"), in: .demo, nil)?.app == "app")
        // The strangers are forgotten, and what they said with them.
        crowd.wait(26 * 3600 * 1000)
        _ = crowd.book.takeSettled()
        crowd.book.fetched(renewed, .demo, 1, address: (1, false))
        #expect(crowd.book.client(Crowd.client("a"), in: .demo, nil)?.sdk == "2.0")
        #expect(crowd.book.audience(of: .demo, topics: nil).sdks.counts.map(\.key) == ["2.0"])
    }

    @Test func theTableOfTheCapTakesLessThanFourMegabytes() {
        var limits = RolloutTracker.Limits()
        limits.keepsNames = false
        let crowd = Crowd(limits)
        for number in 0..<65_536 { crowd.join("c\(number)") }
        #expect(crowd.book.figures.known == 65_536 && crowd.book.figures.weight == 1)
        #expect(crowd.book.figures.byteCount <= 4_000_000)
    }

    @Test func aMessageToManyAsksForASampleOfReports() {
        let crowd = Crowd()
        let ratios = Mutex<[Double]>([])
        _ = crowd.hub.attach { event in
            guard case .announcement(let announcement) = event else { return }
            ratios.withLock { $0.append(announcement.encodedMessages[0].encodedMessage.message.reportRatio) }
        }
        for number in 0..<1000 { crowd.join("c\(number)") }
        crowd.publish(1)
        for number in 1000..<4000 { crowd.join("c\(number)") }
        crowd.publish(2)
        #expect(ratios.withLock { $0 } == [1, 0.25])
        #expect(crowd.hub.board[crowd.hub.board.push].encodedMessage?.message.json["reportRatio"] == .number("0.25"))
    }
}
