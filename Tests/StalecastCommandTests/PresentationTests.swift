import ArgumentParser
import StalecastTemplate
import Testing
import stalecast

@Suite struct PresentationTests {
    private var table: TextTable {
        var table = TextTable(.left("NAME"), .right("COUNT"), .left("ABOUT"))
        table.add("a", "17", String(repeating: "x", count: 100))
        return table
    }

    @Test(arguments: [40, 60, 80]) func aTableFitsItsTerminal(width: Int) {
        let lines = table.lines(Palette(isOn: false), width: width)
        #expect(lines.count == 2 && lines.allSatisfy { $0.count <= width })
        #expect(lines[1].hasSuffix("…") && lines[1].hasPrefix("a        17  xxx"))
    }

    @Test func inAPipeNothingIsShortened() {
        #expect(table.lines(Palette(isOn: false), width: nil)[1].hasSuffix(String(repeating: "x", count: 100)))
    }

    /// Numbers would be wrong when shortened.
    @Test func numbersAndShortColumnsStayWhole() {
        var table = TextTable(.left("ID"), .right("NUMBER"))
        table.add("wh_123456789", "12345678901234567890")
        #expect(table.lines(Palette(isOn: false), width: 10)[1] == "wh_123456789  12345678901234567890")
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
