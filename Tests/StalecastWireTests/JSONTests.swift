import StalecastWire
import StalecastTestSupport
import Testing

@Suite struct JSONTests {
    private func parse(_ text: String) throws -> JSONValue { try JSONValue.parse(text.utf8) }

    /// Names are compared by canonical equivalence, for which Swift sorts the marks: 64 KB of them took 0.5 s.
    @Test func aLongRunOfMarksIsRefused() throws {
        let pair = "\u{315}\u{300}"
        for (count, isRead) in [(32, true), (33, false), (30_000, false)] {
            let marks = String(repeating: pair, count: count)
            for text in [
                "{\"a\(marks)\":1}", "[\"\(marks)\"]",
                "[\"" + String(repeating: "\\u0315\\u0300", count: count) + "\"]",
            ] {
                #expect(((try? JSONValue.parse(text.utf8)) != nil) == isRead)
            }
        }
        let many = String(repeating: "a" + String(repeating: pair, count: 32), count: 1000)
        #expect(try JSONValue.parse("[\"\(many)\"]".utf8) == [.string(many)])
    }

    @Test(arguments: [
        "null", "true", "false", "0", "-0", "1.10", "-1.5e+3", "9223372036854775808", "1E400", "\"\"", "[]", "{}",
        "[1,[2,[]],{}]", "{\"b\":1,\"a\":{\"c\":null}}", "\"\\\"\\\\/\\n\\u0000\"",
    ])
    func documentComesOutAsItWentIn(text: String) throws {
        #expect(try parse(text).text() == text)
    }

    @Test func blanksAndAByteOrderMarkAreSkipped() throws {
        #expect(try parse("\u{FEFF} { \"a\" : [ 1 ,\t2 ]\r\n} ") == ["a": [1, 2]])
    }

    @Test func escapesAreDecoded() throws {
        let text = #""\"\\\/\b\f\n\r\t\u0041\u00e9\u20AC\ud83d\uDE00""#
        #expect(try parse(text).string == "\"\\/\u{8}\u{C}\n\r\tAé€😀")
    }

    @Test(arguments: [
        "", " ", "nul", "tru", "TRUE", "01", "-", "1.", ".5", "1e", "+1", "0x1", "NaN", "[1,]", "[,1]", "[1 2]",
        "{\"a\"}",
        "{\"a\":}", "{a:1}", "{'a':1}", "{\"a\":1,}", "\"", "\"\\\"", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"",
        "\"\\ud800\"",
        "\"\\udc00\"", "\"\\ud800\\u0041\"", "\"a\nb\"", "\"\0\"", "1 1", "{} {}", "]", "[", "{", "{\"a\":1", "[1",
        "//x\n1",
    ])
    func whatIsNotJSONIsRefused(text: String) {
        #expect(throws: JSONError.self) { try JSONValue.parse(text.utf8) }
    }

    @Test(arguments: [
        [0x22, 0xFF, 0x22], [0x22, 0xC0, 0x80, 0x22], [0x22, 0xED, 0xA0, 0x80, 0x22], [0x22, 0xE2, 0x82, 0x22],
    ])
    func invalidUTF8IsRefused(bytes: [UInt8]) {
        #expect(throws: JSONError.self) { try JSONValue.parse(bytes) }
    }

    @Test func memberNamedTwiceIsRefusedWithItsPlace() {
        let error = #expect(throws: JSONError.self) { try JSONValue.parse("{\"a\":1,\n  \"a\":2}".utf8) }
        #expect(error?.line == 2)
        #expect(error?.column == 3)
        #expect(error?.description.contains("\"a\"") == true)
    }

    @Test func nestingBombIsRefusedAtTheLimit() throws {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let bomb = String(repeating: open, count: 100_000)
            #expect(throws: JSONError.self) { try JSONValue.parse(bomb.utf8) }
            let deepest = String(repeating: open, count: 64) + "1" + String(repeating: close, count: 64)
            #expect(throws: Never.self) { try JSONValue.parse(deepest.utf8) }
            let deeper = open + deepest + close
            #expect(throws: JSONError.self) { try JSONValue.parse(deeper.utf8) }
        }
    }

    @Test func wireStyleIsOneLineOfASCIIWhateverTheText() throws {
        let hostile = "\r\n\r\nevent: x\u{2028}\u{2029}\0\u{7F}\u{85}é😀\u{FEFF}"
        let value: JSONValue = [hostile: .string(hostile)]
        let bytes = value.encoded()
        #expect(bytes.allSatisfy { (0x20..<0x7F).contains($0) })
        #expect(try JSONValue.parse(bytes) == value)
        #expect(try Array(#require(JSONValue.parse(bytes)[hostile]?.string).utf8) == Array(hostile.utf8))
    }

    @Test func prettyStyleIndents() {
        let value: JSONValue = ["b": [1], "a": [:], "c": [:]]
        #expect(value.text(.pretty) == "{\n  \"b\": [\n    1\n  ],\n  \"a\": {},\n  \"c\": {}\n}")
        #expect(value.text(JSONStyle(sortedKeys: true)) == #"{"a":{},"b":[1],"c":{}}"#)
    }

    @Test func int64IsReadFromNumberAndString() {
        #expect(JSONValue.number("7").int64 == 7)
        #expect(JSONValue.string("-7").int64 == -7)
        #expect(JSONValue.number("1.5").int64 == nil)
        #expect(JSONValue.string("9223372036854775808").int64 == nil)
        #expect(JSONValue.bool(true).int64 == nil)
    }

    @Test func doublesAreValidJSON() throws {
        #expect(JSONValue.double(.nan) == .null)
        #expect(JSONValue.double(-.infinity) == .null)
        #expect(JSONValue.double(2) == .number("2"))
        for value in [0.1, 1e300, 2.5e-308, -1e15, 123456789.25] {
            let text = JSONValue.double(value).text()
            #expect(Double(text) == value)
            #expect(throws: Never.self) { try JSONValue.parse(text.utf8) }
        }
    }

    @Test func removedMemberLeavesTheOrder() {
        var object: JSONObject = ["a": 1, "b": 2, "c": 3]
        object["b"] = nil
        object["a"] = 4
        object["b"] = 5
        #expect(object.keys == ["a", "c", "b"])
        #expect(object["a"] == 4)
    }

    @Test(arguments: [3, 16, 17, 40])
    func membersAreFoundInObjectsOfEverySize(count: Int) throws {
        var object = JSONObject()
        for number in 0..<count { object["k\(number)"] = .int(number) }
        for number in 0..<count { #expect(object["k\(number)"] == .int(number)) }
        object["k1"] = nil
        object["k0"] = "new"
        object["k1"] = "last"
        object["absent"] = nil
        let names = ["k0"] + (2..<count).map { "k\($0)" } + ["k1"]
        #expect(object.keys == names && object.count == count && object["absent"] == nil)
        #expect(object.members.map(\.value) == [.string("new")] + (2..<count).map { .int($0) } + ["last"])
        let copy = try #require(try JSONValue.parse(JSONValue.object(object).encoded()).object)
        #expect(copy == object && Set([copy, object]).count == 1)
        var other = copy
        other["k1"] = nil
        other["k1"] = "another"
        #expect(other != object && object["k1"] == "last")
    }

    /// Mutations of a document, from a fixed seed: never a crash, and what parses survives a round trip.
    @Test func mutatedDocumentsNeverCrashTheParser() throws {
        let seed = Array(#"{"a":[1,-2.5e3,"x\u00e9\n",true,null],"b":{"c":""}}"#.utf8)
        var random = SeededRandom(seed: 7)
        var accepted = 0
        for _ in 0..<20_000 {
            var bytes = seed
            for _ in 0...Int(random.next() % 3) {
                let index = Int(random.next() % UInt64(bytes.count))
                switch random.next() % 3 {
                case 0: bytes[index] = UInt8(truncatingIfNeeded: random.next())
                case 1: bytes.remove(at: index)
                default: bytes.insert(bytes[Int(random.next() % UInt64(bytes.count))], at: index)
                }
            }
            if let value = try? JSONValue.parse(bytes) {
                accepted += 1
                #expect(try JSONValue.parse(value.encoded()) == value)
            }
        }
        #expect(accepted > 100)
    }
}
