import Foundation
import Logging
import StalecastDaemon
import Testing

@Suite struct SupervisionTests {
    @Test func theWatchdogHearsThreeTimesInItsIntervalAndNeverWhileSomethingHangs() {
        var watchdog = Watchdog(["WATCHDOG_USEC": "60000000"])
        let start = ContinuousClock.now
        let moments = [(0, true), (19, true), (20, true), (60, false), (61, true)]
        let due = moments.map { second, isWell in watchdog.isDue(isWell, at: start + .seconds(second)) }
        #expect(due == [true, false, true, false, true])
        var unwatched = Watchdog([:])
        let isDue = unwatched.isDue(true, at: start)
        #expect(!isDue)
    }

    @Test func aWatchdogOfAnotherProcessIsNone() {
        let environments: [([String: String], Int64?)] = [
            (["WATCHDOG_USEC": "5000"], 5000), (["WATCHDOG_USEC": "5000", "WATCHDOG_PID": "7"], 5000),
            (["WATCHDOG_USEC": "5000", "WATCHDOG_PID": "8"], nil), (["WATCHDOG_USEC": "-1"], nil),
            (["WATCHDOG_USEC": "99999999999999999999"], nil), ([:], nil),
        ]
        for (environment, interval) in environments {
            #expect(Watchdog.interval(environment, process: 7) == interval)
        }
    }

    @Test func onlyTheStreamThatSystemdConnectedGetsPriorities() throws {
        let file = try #require(tmpfile())
        defer { fclose(file) }
        var status = stat()
        #expect(fstat(fileno(file), &status) == 0)
        #expect(DaemonLog.isJournal("\(status.st_dev):\(status.st_ino)", fileno(file)))
        #expect(!DaemonLog.isJournal("\(status.st_dev):\(status.st_ino + 1)", fileno(file)))
        #expect(!DaemonLog.isJournal(nil, fileno(file)))
        #expect(Logger.Level.allCases.map(\.priority) == [7, 7, 6, 5, 4, 3, 2])
    }

    @Test func aBuildBetweenTwoReleasesSaysSo() {
        #expect(DaemonVersion.spelled("0.2.0", build: "release") == "0.2.0")
        #expect(DaemonVersion.spelled("0.2.0", build: "git14.51b72f7") == "0.2.0~git14.51b72f7")
        #expect(DaemonVersion.spelled("0.2.0", build: "") == "0.2.0~dev")
    }

    @Test func aContainerIsNotAskedToSetTheMachinesClock() {
        let found = SystemCheck(Configuration(), isContainer: true).findings.first { $0.subject == "clock" }
        #expect(found?.command == nil)
    }

    @Test func onlySocketsHandedToThisProcessCount() {
        let environment = ["LISTEN_PID": "7", "LISTEN_FDS": "2", "LISTEN_FDNAMES": "other:edge"]
        #expect(HandedSockets(environment, process: 7).edge == 4)
        #expect(HandedSockets(environment, process: 8).edge == nil)
        #expect(HandedSockets(["LISTEN_PID": "7", "LISTEN_FDS": "1"], process: 7).edge == 3)
        for count in ["0", "-1", "99999999999", "x"] {
            #expect(HandedSockets(["LISTEN_PID": "7", "LISTEN_FDS": count], process: 7).descriptors.isEmpty)
        }
    }
}
