import StalecastEdge
import Testing

@Suite struct BurstEchoTests {
    @Test func aLoneMessageHasNoEcho() {
        var echo = BurstEcho()
        for time: UInt64 in [0, 5000, 20_000] { echo.said(at: time, delayMs: 5000) }
        #expect(echo.due == nil)
    }

    @Test func theEchoComesOnceAfterTheLastOfABurst() {
        var echo = BurstEcho()
        for time: UInt64 in [0, 4999, 9000] { echo.said(at: time, delayMs: 5000) }
        #expect(echo.due == 14_000)
        let taken = [13_999, 14_000, 14_100].map { echo.takeDue(at: $0) }
        #expect(taken == [false, true, false])
    }

    @Test func anEchoIsNoPartOfABurst() {
        var echo = BurstEcho()
        for time: UInt64 in [0, 100] { echo.said(at: time, delayMs: 5000) }
        let isTaken = echo.takeDue(at: 5100)
        #expect(isTaken)
        echo.said(at: 5200, delayMs: 5000)
        #expect(echo.due == nil)
        echo.said(at: 5300, delayMs: 5000)
        #expect(echo.due == 10_300)
    }
}
