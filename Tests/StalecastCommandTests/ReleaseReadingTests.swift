import StalecastWire
import Testing
import stalecast

@Suite struct ReleaseReadingTests {
    private static let now = Timestamp("2026-11-20T13:00:00Z") ?? .now()
    private static let plain = Palette(isOn: false)

    private static func event(_ kind: String, _ percent: Double, by: String = "schedule", reason: String? = nil)
        -> JSONValue
    {
        var object: JSONObject = [
            "at": "2026-11-20T12:59:18Z", "by": .string(by), "kind": .string(kind), "percent": .double(percent),
        ]
        object["reason"] = reason.map(JSONValue.string)
        return .object(object)
    }

    private static func release(_ state: String, _ events: [JSONValue], _ more: JSONObject = [:]) -> ReleaseReading {
        var object: JSONObject = [
            "versionNumber": "18", "baseVersionNumber": "17", "state": .string(state), "percent": 1,
            "stages": [["percent": 1, "reachedAt": "2026-11-20T12:59:18Z", "sequence": "9"], ["percent": 100]],
            "events": .array(events),
        ]
        for (name, value) in more.members { object[name] = value }
        return ReleaseReading(.object(object))
    }

    private static let began = event("BEGAN", 1, by: "key:ops")
    private static let paused = event("PAUSED", 1, by: "gate:loss", reason: "4.1 % of the told left")
    private static let ramping = release("RAMPING", [began], ["nextStepAt": "2026-11-20T13:04:30Z"])

    @Test func eachEventIsALineOnce() {
        var progress = ReleaseProgress()
        #expect(progress.take(Self.ramping, Self.plain, at: Self.now) == ["    1 %  told; next step in 4m"])
        #expect(progress.take(Self.ramping, Self.plain, at: Self.now).isEmpty)
        let next = [
            Self.event("ADVANCED", 100), Self.event("RELEASED", 100),
        ]
        #expect(
            progress.take(Self.release("RELEASED", [Self.began] + next), Self.plain, at: Self.now)
                == ["  100 %  told", "  100 %  released"])
    }

    @Test func aLogThatForgotItsBeginningIsShownWhole() {
        var progress = ReleaseProgress()
        _ = progress.take(Self.ramping, Self.plain, at: Self.now)
        let later = Self.release("PAUSED", [Self.paused])
        #expect(
            progress.take(later, Self.plain, at: Self.now) == ["    1 %  PAUSED by gate:loss: 4.1 % of the told left"])
    }

    @Test func aPageHasTheStagesTheGatesAndTheLog() {
        let gates: JSONValue = [
            [
                "name": "loss", "verdict": "TRIPPED", "value": .double(3.6), "limit": 2, "told": .double(4.1),
                "untold": .double(0.5), "count": 2120, "detail": "of 2,120 addresses",
            ],
            ["name": "prometheus", "verdict": "TOO_LITTLE", "limit": 5],
        ]
        let page = Self.release("PAUSED", [Self.began, Self.paused], ["gates": gates])
            .lines(Self.plain, scope: "demo/firebase", at: Self.now, width: nil).joined(separator: "\n")
        for words in [
            "version 18 of demo/firebase, over version 17: is paused at 1 % by gate:loss: 4.1 % of the told left\n",
            "STAGE  REACHED", "100 %  -", "tripped     3.6 %    2 %  4.1 %   0.5 %  2,120  of 2,120",
            "prometheus  too little             5\n", "paused    1 %  gate:loss  4.1 % of",
            "`stalecast release resume` lets it go on", "`stalecast release promote` tells all",
        ] {
            #expect(page.contains(words), "\(words) is not in\n\(page)")
        }
    }

    @Test func aLineOnTheTerminalHasAsManyFiguresAsFit() {
        let loss: JSONValue = ["name": "loss", "verdict": "OK", "told": .double(0.2), "untold": .double(0.1)]
        let reading = Self.release(
            "RAMPING", [Self.began],
            [
                "nextStepAt": "2026-11-20T13:04:30Z", "gates": [loss],
                "clients": ["told": 1204, "fetched": 1200, "failed": 0],
            ])
        let whole =
            "    1 %  " + String(repeating: "░", count: 20)
            + "  next step in 4m; told 1,204, fetched 1,200, failed 0, lost 0.2 %, others 0.1 %"
        #expect(reading.liveLine(columns: 200, at: Self.now) == whole)
        #expect(reading.liveLine(columns: 80, at: Self.now).hasSuffix("told 1,204, fetched 1,200"))
        #expect(Self.ramping.liveLine(columns: 80, at: Self.now).hasSuffix("next step in 4m"))
        let page = reading.lines(Self.plain, scope: "demo/firebase", at: Self.now, width: nil)
        #expect(page.contains("clients with an id: told 1,204, fetched 1,200, failed 0, lost 0.2 %, others 0.1 %"))
    }

    @Test func whatComesNextIsSaid() {
        #expect(Self.ramping.next(at: Self.now) == "next step in 4m")
        let begun = Self.release("RAMPING", [], ["nextStepAt": "2026-11-20T13:04:59Z"])
        #expect(begun.next(at: Self.now) == "next step in 5m")
        #expect(Self.release("RAMPING", []).next(at: Self.now) == "waits for `stalecast release promote --to-next`")
        #expect(Self.release("PAUSED", []).next(at: Self.now).isEmpty)
        let baking = Self.release("BAKING", [Self.event("ADVANCED", 100)], ["nextStepAt": "2026-11-20T12:59:00Z"])
        #expect(baking.next(at: Self.now) == "released now, unless it is taken back")
        #expect(baking.advice?.contains("promote") == false)
    }

    @Test func theExitCodeSaysHowItEnded() {
        let ends: [(ReleaseReading, Int32?)] = [
            (Self.release("RELEASED", [Self.event("RELEASED", 100)]), nil),
            (Self.release("PAUSED", [Self.paused]), 9),
            (Self.release("ROLLED_BACK", [Self.event("ROLLED_BACK", 1, by: "key:ops")]), 9),
            (Self.release("SUPERSEDED", []), 5), (Self.ramping, 7),
            (Self.release("RELEASED", [], ["versionNumber": "20"]), 5),
        ]
        for (reading, code) in ends {
            #expect(ReleaseOutcome(reading, of: 18).failure?.status.rawValue == code, "\(reading.state)")
        }
    }

    @Test func aRollbackNamesBothVersions() {
        let events = [Self.began, Self.event("ROLLED_BACK", 1, by: "key:ops", reason: "crashes")]
        #expect(
            Self.release("ROLLED_BACK", events, ["successorVersionNumber": "19", "percent": 0]).sentence(at: Self.now)
                == "the release of version 18 was rolled back at 1 % by key:ops: crashes; version 19 has the content of "
                + "version 17")
    }

    @Test func theAudienceOfEachStageIsAboutItsShare() {
        let audience: JSONValue = ["streams": 20_600, "polls": 0, "clients": 18_023, "unidentifiedStreams": 2457]
        #expect(
            StageAudience(stages: "1%, 12.5%,100%", audience: audience).lines == [
                "    1 %  about 180 of 20,480 clients connected now", " 12.5 %  about 2,253", "  100 %  20,480",
                "2,457 of them say no id: told with the last stage",
            ])
        let split = StageAudience(stages: "1%,100%", audience: audience, splitsAddresses: true).lines
        #expect(split.first == "    1 %  about 205 of 20,480 clients connected now")
        #expect(StageAudience(stages: "1%,100%", audience: [:]).lines.count == 1)
    }

    private static let shapes: [JSONValue] = [
        [:], ["events": 1, "stages": ["x", .null], "gates": "x", "nextStepAt": 3, "percent": "x"],
        ["events": [["percent": .number("1e300"), "at": [:]], "x"], "state": "NEWER", "percent": .number("-1e300")],
        ["clients": .number("9223372036854775807"), "unidentifiedStreams": .number("9223372036854775807")],
    ]

    @Test(arguments: shapes)
    func anAnswerOfAnyShapeIsAPage(json: JSONValue) {
        let reading = ReleaseReading(json)
        #expect(reading.lines(Self.plain, scope: "s").count >= 5)
        #expect(ReleaseOutcome(reading, of: 1).failure != nil && reading.isOpen)
        #expect(!StageAudience(stages: "1e300%,nan,-5,,100%", audience: json).lines.isEmpty)
    }

    @Test func whatOthersWroteCannotPlayWithTheTerminal() {
        let nasty = "\u{1B}]0;pwned\u{7}\u{9B}31m\u{202E}red\r\n"
        let event = Self.event("PAUSED", 1, by: nasty, reason: nasty)
        let reading = Self.release(
            "PAUSED", [event], ["gates": [["name": .string(nasty)]], "successorVersionNumber": .string(nasty)])
        var progress = ReleaseProgress()
        let text = (reading.lines(Self.plain, scope: "s") + progress.take(reading, Self.plain) + [reading.sentence()])
            .joined()
        #expect(text.contains("red"))
        let bad = "\u{1B}\u{7}\u{9B}\u{202E}\r\n".unicodeScalars
        #expect(!text.unicodeScalars.contains { bad.contains($0) }, "\(text)")
    }
}
