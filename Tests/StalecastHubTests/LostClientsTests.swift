import StalecastHub
import StalecastWire
import Testing

/// Clients that leave a version's audience without having the version.
@Suite struct LostClientsTests {
    /// The version may be why they went, so they stay in what shares are of.
    @Test func clientsThatLeaveAfterTheyWereToldCountAgainstTheVersion() throws {
        let crowd = Crowd.thatLostSix()
        let left = try #require(crowd.book.propagation(of: .demo))
        #expect(left.clients.lost == 6 && left.clients.expected == 10 && left.share(of: .fetched) == (4, 10))
        #expect(left.state == .left && left.fetched.t50 == nil, "4 of 10 is not half")
        for number in 4..<10 { crowd.fetch("c\(number)", 1) }
        #expect(crowd.book.propagation(of: .demo)?.state == .converged && crowd.clients().left == 0)
    }

    @Test func oneClientInAHundredMayGoWithoutTheVersion() {
        let crowd = Crowd()
        for number in 0..<100 { crowd.join("c\(number)") }
        crowd.publish(1)
        for number in 0..<98 { crowd.fetch("c\(number)", 1) }
        crowd.leave("c98")
        crowd.leave("c99")
        crowd.wait(11_000)
        #expect(crowd.book.propagation(of: .demo)?.state == .left)
        crowd.fetch("c98", 1)
        #expect(crowd.book.propagation(of: .demo)?.state == .converged && crowd.clients().lost == 1)
    }

    /// A client that comes back with a newer version may have gone because of the older one.
    @Test func aVersionThatLostClientsStaysSoWhenANewerOneBringsThemBack() {
        let crowd = Crowd()
        for name in ["stays", "goes"] { crowd.join(name) }
        crowd.publish(1)
        crowd.fetch("stays", 1)
        crowd.leave("goes")
        crowd.wait(11_000)
        crowd.publish(2)
        crowd.join("goes", have: 2)
        crowd.fetch("stays", 2)
        #expect(crowd.book.propagation(of: .demo, 1)?.state == .left && crowd.clients(1).lost == 1)
        crowd.fetch("goes", 2, active: 2)
        #expect(crowd.clients(1).active == 0 && crowd.clients(1).fetched == 1)
    }

    /// Nothing is known of the others, so that one client is no share of the audience.
    @Test func oneLostClientAmongAnonymousStreamsIsNoLossOfTheVersion() {
        let crowd = Crowd()
        let loop = crowd.book.addLoop()
        crowd.join("a")
        crowd.publish(1)
        var counts = StreamCounts()
        (counts.streams, counts.left) = (1000, 1)
        crowd.book.note(counts, of: loop, in: .demo, 1)
        crowd.leave("a")
        crowd.wait(11_000)
        #expect(crowd.clients().lost == 1 && crowd.book.propagation(of: .demo)?.state == .converged)
    }

    /// Restarts: the client may have the version and not have said so.
    @Test func aClientThatSaidNothingAfterARestartIsNotLost() {
        let crowd = Crowd()
        crowd.book.resume(.make(7), on: [crowd.hub.board.push])
        crowd.join("silent")
        crowd.join("old", have: 6)
        for name in ["silent", "old"] { crowd.leave(name) }
        crowd.wait(11_000)
        #expect(crowd.clients().left == 2 && crowd.clients().lost == 1 && crowd.clients().unknown == 0)
    }

    @Test func clientsThatWereNotToldDoNotCountAgainstTheVersion() throws {
        let crowd = Crowd()
        for name in ["a", "away", "slow"] { crowd.join(name) }
        crowd.leave("away")
        crowd.wait(2000)
        crowd.publish(1)
        crowd.fetch("a", 1)
        // Its stream ended before its socket took the message.
        crowd.book.left([Crowd.client("slow").key(in: .demo)], isPoll: false, untold: 1)
        #expect(crowd.clients().left == 1, "it is not waited for")
        crowd.wait(11_000)
        let status = try #require(crowd.book.propagation(of: .demo))
        #expect(status.clients.left == 2 && status.clients.lost == 0 && status.share(of: .fetched) == (1, 1))
        #expect(status.state == .converged)
        crowd.join("slow")
        #expect(crowd.clients().left == 1 && crowd.clients().behind == 1)
    }
}
