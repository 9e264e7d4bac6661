import ArgumentParser
import StalecastTemplate
import StalecastWire
import Testing
import stalecast

@Suite struct PresentationTests {
    private var table: TextTable {
        TextTable(
            [.left("NAME"), .right("COUNT"), .left("ABOUT")], cells: [["a", "17", String(repeating: "x", count: 100)]])
    }

    @Test(arguments: [40, 60, 80]) func aTableFitsItsTerminal(width: Int) {
        let lines = table.lines(Palette(isOn: false), width: width)
        #expect(lines.count == 2 && lines.allSatisfy { $0.count <= width })
        #expect(lines[1].hasSuffix("…") && lines[1].hasPrefix("a        17  xxx"))
    }

    @Test(arguments: [
        ("2026-11-20T12:59:18Z", "42s"), ("2026-11-20T10:30:00Z", "2h"), ("2026-10-01T00:00:00Z", "50d"),
        ("2026-11-20T13:00:01Z", "0s"), ("2026-11-20T13:00:05Z", "in 5s"), ("2026-11-20T16:30:00Z", "in 3h"),
        ("soon", ""),
    ])
    func aTimeToComeIsNoAgeOfNothing(_ time: String, _ expected: String) throws {
        #expect(age(time, at: try #require(Timestamp("2026-11-20T13:00:00Z"))) == expected)
    }

    @Test func inAPipeNothingIsShortened() {
        #expect(table.lines(Palette(isOn: false), width: nil)[1].hasSuffix(String(repeating: "x", count: 100)))
    }

    /// Numbers would be wrong when shortened.
    @Test func numbersAndShortColumnsStayWhole() {
        let table = TextTable([.left("ID"), .right("NUMBER")], cells: [["wh_123456789", "12345678901234567890"]])
        #expect(table.lines(Palette(isOn: false), width: 10)[1] == "wh_123456789  12345678901234567890")
    }

    /// A time cut short says nothing; a column of nothing only takes room.
    @Test(arguments: [(100, "ID  WHEN                 NOTE"), (40, "ID  WHEN                 NOTE"), (24, "ID  NOTE")])
    func columnsThatCanBeSparedAreLeftOut(width: Int, heading: String) {
        let cells = ["a", "2026-11-20 13:00:00", String(repeating: "n", count: 40), ""]
        let table = TextTable([.left("ID"), .whole("WHEN"), .left("NOTE"), .extra("USER")], cells: [cells])
        let lines = table.lines(Palette(isOn: false), width: width)
        #expect(lines[0] == heading && lines.allSatisfy { $0.count <= width }, "\(lines)")
    }

    @Test func aPlaceIsShortenedInTheMiddle() {
        let url = "http://127.0.0.1:9000/hooks/of/a/long/path/receiver-7"
        let table = TextTable(
            [.id("ID"), .place("URL"), .extra("ABOUT"), .whole("MODE")], cells: [["wh_1", url, "the first", "latest"]])
        #expect(table.lines(Palette(isOn: false), width: 80)[1] == "wh_1  \(url)  the first  latest")
        let narrow = table.lines(Palette(isOn: false), width: 40)[1]
        #expect(narrow == "wh_1  http://127.0.0.1:…/path/receiver-7", "\(narrow)")
    }

    @Test func aLittleLooksLikeALittle() {
        #expect(Sparkline.text([0.4, 0.1], width: 5, least: 100) == "▁▁")
    }

    private func rolloutStatus(_ members: JSONObject) -> JSONValue {
        var object: JSONObject = ["versionNumber": "66", "state": "SPREADING", "partial": true]
        for (name, value) in members.members { object[name] = value }
        return .object(object)
    }

    @Test func afterARestartNothingIsSaidThatIsNotKnown() {
        let none: JSONObject = ["audience": 45, "fetched": 0, "left": 0, "unknown": 45]
        let before: JSONValue = ["streams": ["audience": 50, "sent": 50], "clients": ["audience": 45, "fetched": 34]]
        let reading = PropagationReading(
            rolloutStatus(["streams": ["audience": 50, "sent": 50], "clients": .object(none), "beforeRestart": before]))
        let lines = reading.lines(Palette(isOn: false), scope: "demo/firebase", width: 80)
        #expect(!lines.contains { $0.contains("% of 45") }, "\(lines)")
        #expect(lines.contains("how many of 45 clients have version 66 is unknown since the restart"))
        #expect(lines.contains("when it stopped: sent 50 of 50 streams; fetched 34 of 45 clients"))

        // Two restarts: the process before knew as little.
        let again = PropagationReading(
            rolloutStatus([
                "streams": ["audience": 50, "sent": 50], "clients": .object(none),
                "beforeRestart": ["streams": ["audience": 0, "sent": 0], "clients": .object(none)],
            ]))
        let less = again.lines(Palette(isOn: false), scope: "demo/firebase", width: 80)
        #expect(!less.contains { $0.contains("when it stopped") }, "\(less)")
    }

    @Test func aNodeThatDoesNotSayWhoWasLostGivesTheLeastShare() {
        let clients: JSONObject = ["audience": 10, "fetched": 4, "left": 6, "unknown": 0, "behind": 0]
        func lines(_ clients: JSONObject) -> [String] {
            let reading = PropagationReading(
                rolloutStatus(["streams": ["audience": 10, "sent": 10], "clients": .object(clients), "partial": false]))
            return reading.lines(Palette(isOn: false), scope: "demo/firebase", width: 80)
        }
        let vague = lines(clients)
        let least = "at least 40.0 % of 10 clients have fetched version 66; "
        #expect(
            vague.contains(least + "6 left, and release 0.2.0 did not count whether after being told"), "\(vague)")
        #expect(!vague.contains { $0.hasSuffix("left before being told") }, "\(vague)")
        var known = clients
        known["lost"] = 0
        #expect(lines(known).contains("100.0 % of 4 clients have fetched version 66"))
        #expect(lines(known).contains("6 clients left before being told"))
    }

    /// A node of 0.2.0 counts the named clients of the other nodes as streams without an id.
    @Test func anOlderDaemonsStreamsAreNotJudged() throws {
        let old: JSONValue = ["streams": 18, "unidentifiedStreams": 12, "topics": [["streams": 18]]]
        #expect(PublishCounts.anonymous(old) == nil)
        let own = try #require(
            PublishCounts.anonymous(["streams": 90, "thisNode": ["streams": 30, "unidentifiedStreams": 20]]))
        #expect(own == (30, 20))
    }

    @Test func aVersionWithoutAnAudienceHasNoBar() {
        let reading = PropagationReading(
            rolloutStatus(["streams": ["audience": 0, "sent": 0], "clients": ["audience": 0]]))
        let lines = reading.lines(Palette(isOn: false), scope: "demo/firebase", width: 80)
        #expect(lines.contains("sent     no streams to wait for"), "\(lines)")
    }

    @Test func theEndOfTheTimeSaysWhatBecameOfTheVersion() {
        var outcome = WaitOutcome(done: ["reason": "TIMEOUT"])
        #expect(outcome.failure?.advice == "The version stays, and goes on.")
        outcome.ending = .rolledBack(source: 12, version: 14)
        #expect(outcome.failure?.advice == "The content of version 12 is back as version 14.")
        outcome.ending = .isNotNewest
        #expect(outcome.failure?.advice?.contains("was not rolled back: a newer version") == true)
        outcome.ending = .isNotOurs
        #expect(outcome.failure?.advice?.contains("this command did not publish it") == true)
        outcome.ending = .isFirst
        #expect(outcome.failure?.advice?.contains("no version before it") == true)
    }

    @Test func aQuestionAboutAKeySaysWhatItIsAndWhenItWasUsed() {
        let key: JSONValue = ["kind": "publishable", "name": "app", "grants": [["actions": ["watch"]]]]
        #expect(
            KeyReport.question("Revoke", "4fT0aZ81Qx", key)
                == "Revoke the publishable key 4fT0aZ81Qx (\"app\", watch on *, not used since the daemon started)?")
    }

    @Test func aKeyIsFoundByItsIDOrByANameThatOneHas() throws {
        func key(_ id: String, _ name: String, _ state: String = "active") -> JSONValue {
            ["id": .string(id), "name": .string(name), "state": .string(state)]
        }
        let keys = [
            key("4fT0aZ81Qx", "app"), key("aaaaaaaaaa", "app", "revoked"), key("bbbbbbbbbb", "ci"),
            key("cccccccccc", "ci"), key("dddddddddd", "4fT0aZ81Qx"), key("ffffffffff", ""),
        ]
        #expect(try KeyReport.id(of: "app", among: keys) == "4fT0aZ81Qx")
        #expect(try KeyReport.id(of: "4fT0aZ81Qx", among: keys) == "4fT0aZ81Qx", "an id comes before a name")
        #expect(try KeyReport.id(of: "eeeeeeeeee", among: keys) == "eeeeeeeeee", "the daemon says that it has none")
        #expect(throws: CommandFailure.self) { try KeyReport.id(of: "ci", among: keys) }
        #expect(throws: CommandFailure.self) { try KeyReport.id(of: "nobody", among: keys) }
        #expect(throws: CommandFailure.self, "a key without a name") { try KeyReport.id(of: "", among: keys) }
    }

    @Test(
        arguments: [
            ([], 10, ""), ([0, 0], 10, "▁▁"), ([0, 1, 2, 4], 10, "▁▃▅█"), ([9, 9, 1, 2], 2, "▅█"),
            ([.nan, .infinity, 1], 5, "▁▁█"),
            ([1], 0, ""),
        ] as [([Double], Int, String)])
    func aCurveIsDrawnInPartsOfItsLargestValue(values: [Double], width: Int, line: String) {
        #expect(Sparkline.text(values, width: width) == line)
    }

    @Test(
        arguments: [
            ("short", 10, "short"), ("one two three", 8, "one two\nthree"), ("one two three", 7, "one two\nthree"),
            ("  - one two", 8, "  - one\n    two"), ("a\nb c", 2, "a\nb\nc"),
            ("run `stalecast token rotate` now", 12, "run\n`stalecast token rotate`\nnow"),
            ("unbreakable", 4, "unbreakable"),
        ]) func textIsBrokenAtBlanksAndCommandsAreNot(text: String, width: Int, lines: String)
    {
        #expect(text.wrapped(to: width) == lines)
        #expect(text.wrapped(to: nil) == text)
    }

    @Test func aWrongWordIsFoundAtItsPlace() {
        #expect(Stalecast.wrongCommand(["webhooks", "lst", "x"])?.word == "lst")
        #expect(Stalecast.wrongCommand(["webhooks", "lst"])?.path == ["stalecast", "webhooks"])
        #expect(Stalecast.wrongCommand(["pubish"])?.known.contains("publish") == true)
        for right in [["publish", "x"], ["backup", "to.file"], ["--version"], ["help", "x"], ["sources"], []] {
            #expect(Stalecast.wrongCommand(right) == nil, "\(right)")
        }
    }

    @Test(arguments: [
        (
            "{\"streams\":{\"audience\":1204,\"sent\":1204},\"milliseconds\":31.2,\"webhooks\":{\"owed\":3}}",
            "told 1,204 of 1,204 streams in 31 ms; 3 webhooks on their way"
        ),
        (
            "{\"streams\":{\"audience\":2,\"sent\":1},\"polls\":{\"answered\":1},\"milliseconds\":0.42}",
            "told 1 of 2 streams and 1 long-poll in 0.4 ms; 1 read too slowly and get it when they can"
        ),
        ("{}", "no client is connected that would hear of it"),
    ])
    func thePublisherReadsWhoWasTold(json: String, sentence: String) throws {
        #expect(PublishCounts(json: try JSONValue.parse(json.utf8)).sentence == sentence)
    }

    /// `/status` twice, a second apart; the daemon was started anew before the third.
    @Test func ratesAreThoseBetweenTwoLooks() throws {
        func status(_ deliveries: Int, _ count: Int, _ seconds: Double) throws -> JSONValue {
            try JSONValue.parse(
                """
                {"ready":true,"edge":{"streams":7,"slowReaders":3,"deliveries":\(deliveries),
                 "written":{"count":\(count),"seconds":\(seconds)}},"sources":[{"error":{}},{}]}
                """.utf8)
        }
        var reading = TopReading()
        reading.take(try status(100, 10, 1), at: 5)
        #expect(reading.json == nil)
        reading.take(try status(300, 20, 1.05), at: 7)
        #expect(reading.samples.last?.deliveries == 100 && reading.samples.last?.lag.map { Int($0.rounded()) } == 5)
        #expect(reading.json?["sources"]?["failing"]?.int64 == 1)
        reading.take(try status(0, 0, 0), at: 8)
        #expect(reading.samples.last?.deliveries == 0 && reading.samples.last?.lag == nil)
        for width in [40, 80, 200] {
            let lines = reading.lines(Palette(isOn: false), width: width, at: .now(), clock: LocalClock(isUTC: true))
            #expect(lines.allSatisfy { $0.count <= max(width, 40) }, "\(lines)")
            #expect(lines.contains { $0.hasPrefix("streams") && $0.contains("7") && $0.contains("█") })
            #expect(width < 80 || lines.contains { $0.contains("slow readers 3") })
        }
        #expect(reading.json?["slowReaders"]?.int64 == 3)
    }

    @Test(arguments: [
        (#"{"mode":"observe","refused":0,"observed":45}"#, "access   observe, 45 requests would have been refused"),
        (#"{"mode":"enforce","refused":2,"observed":0}"#, "access   enforce"),
    ])
    func theStatusSaysWhatEdgeAsksOfCallers(auth: String, line: String) throws {
        let status = try JSONValue.parse("{\"auth\":\(auth),\"edge\":{\"slowReaders\":5}}".utf8)
        let lines = StatusReading(status).lines(Palette(isOn: false))
        #expect(lines.contains(line) && lines.contains { $0.hasPrefix("edge") && $0.hasSuffix("slow readers 5") })
        let older = StatusReading(["auth": ["refused": 0]]).lines(Palette(isOn: false))
        #expect(!older.contains { $0.hasPrefix("access") }, "an older daemon does not say it")
    }

    @Test(arguments: [
        ("pubish", "publish"), ("wath", "watch"), ("statsu", "status"), ("check-confg", "check-config"),
    ])
    func aWordNearACommandIsRecognised(word: String, command: String) {
        let names = Stalecast.configuration.subcommands.map { $0._commandName }
        #expect(nearestName(to: word, of: names) == command)
    }

    @Test(arguments: ["frobnicate", "", "xyz"]) func otherWordsAreNot(word: String) {
        #expect(nearestName(to: word, of: ["publish", "watch", "get"]) == nil)
    }

    @Test func coloursFollowTheEnvironment() {
        #expect(Palette.isWanted([:], isTerminal: true) && !Palette.isWanted([:], isTerminal: false))
        #expect(!Palette.isWanted(["TERM": "dumb"], isTerminal: true))
        #expect(!Palette.isWanted(["NO_COLOR": "1", "FORCE_COLOR": "1"], isTerminal: true))
        #expect(Palette.isWanted(["FORCE_COLOR": "1", "TERM": "dumb"], isTerminal: false))
        #expect(!Palette.isWanted(["FORCE_COLOR": "0"], isTerminal: true))
    }

    @Test func jsonForATerminalMeansTheSame() {
        #expect("{\"a\": \"x\u{9B}\u{202E}é\"}\n".jsonPrintable == "{\"a\": \"x\\u009b\\u202eé\"}\n")
    }
}
