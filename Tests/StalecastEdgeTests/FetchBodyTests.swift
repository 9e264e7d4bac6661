import StalecastEdge
import StalecastHTTP
import StalecastTemplate
import StalecastWire
import Testing

@Suite struct FetchBodyTests {
    @Test func theBodyOfTheJSSDKIsRead() throws {
        let context = try FetchBodies.context(FetchBodies.js)
        #expect(context.appID == "1:123456789012:web:0a1b2c3d4e5f" && context.platform == "web")
        #expect(context.appInstanceID == "cAbCdEfGhIjKlMnOpQrStU" && context.languageCode == "en-US")
        #expect(context.customSignals == ["plan": "pro"] && context.countryCode == nil)
    }

    @Test func theBodyOfTheAndroidSDKIsRead() throws {
        let context = try FetchBodies.context(FetchBodies.android)
        #expect(context.platform == "android" && context.countryCode == "US" && context.appBuild == "210")
        #expect(context.timeZone == "Europe/Paris" && context.analyticsUserProperties.isEmpty)
        #expect(context.firstOpenTime == Timestamp("2026-01-05T10:00:00Z"))
    }

    @Test func thePseudoJSONOfTheIOSSDKIsRead() throws {
        let context = try FetchBodies.context(FetchBodies.ios)
        #expect(context.platform == "ios" && context.countryCode == "us" && context.languageCode == "en_US")
        #expect(context.analyticsUserProperties == ["plan": "pro"] && context.customSignals == ["city": "york"])
        #expect(context.firstOpenTime == Timestamp("2026-01-05T10:00:00Z") && context.appVersion == "2.1.0")
    }

    @Test func theBodyOfTheCPlusPlusSDKIsRead() throws {
        let context = try FetchBodies.context(FetchBodies.cpp)
        #expect(context.platform == "android" && context.timeZone == nil)
    }

    @Test(arguments: ["'", "it's", "it's, isn't", "a}b'c", "'quoted'", "{x:'y'", "l'été ☀", "back\\slash", ""])
    func apostrophesInIOSTextsBelongToTheText(text: String) throws {
        let object = try LenientJSON.object(Array("{a:'\(text)' , b:'\(text)'}".utf8))
        #expect(object["a"]?.string == text)
        #expect(object["b"]?.string == text)
    }

    @Test func nilOfIOSIsNull() throws {
        let object = try LenientJSON.object(Array("{a:(null), b:'(null)', c:'x'}".utf8))
        #expect(object["a"]?.isNull == true && object["c"]?.string == "x")
        #expect(object["b"]?.string == "(null)")
    }

    @Test func aTextThatPrintsNilIsAbsent() throws {
        for spelling in ["(null)", "'(null)'", "''"] {
            let text = FetchBodies.ios.replacing("country_code:'us'", with: "country_code:\(spelling)")
            #expect(try FetchBodies.context(text).countryCode == nil, "\(spelling)")
        }
    }

    @Test func strictJSONIsReadAsJSON() throws {
        let text = #"{"a": "x\n\"é\"", "b": [1, -2.5e3, true, false, null], "c": {"d": {}}}"#
        #expect(try JSONValue.object(LenientJSON.object(Array(text.utf8))) == JSONValue.parse(Array(text.utf8)))
    }

    @Test(
        arguments: [
            "", "{", "{a", "{a:", "{a:'", "{a:'x'", "{a:'x',", "{a b}", "[]", "1", "{}x", #"{"a":"\"#, #"{"a":"\x"}"#,
            "{a:}", "{:1}", "{a:'x'}}", "{'a'}", "{\"a\":\"\u{1}",
        ])
    func whatIsNoObjectIsAnError(text: String) {
        #expect(throws: JSONError.self) { try LenientJSON.object(Array(text.utf8)) }
    }

    @Test func nestingAndSizeAreBounded() {
        for count in [9, 50_000] {
            let deep = "{a:" + String(repeating: "[", count: count)
            #expect(throws: JSONError.self) { try LenientJSON.object(Array(deep.utf8)) }
        }
        let wide = "{" + (0..<2000).map { "k\($0):1" }.joined(separator: ",") + "}"
        #expect(throws: JSONError.self) { try LenientJSON.object(Array(wide.utf8)) }
    }

    @Test func noBytesCrashTheParser() {
        var random = SystemRandomNumberGenerator()
        let alphabet = Array("{}[]:,'\"\\() \nabu0-.é".utf8) + [0, 0x1F, 0x8B, 0xC3, 0xFF]
        var understood = 0
        let now = Timestamp.now()
        for round in 0..<60_000 {
            var bytes = Array(FetchBodies.all[round % 4].utf8)
            if round % 3 == 0 {
                bytes = [0x7B] + (0..<Int.random(in: 0...40)).map { _ in alphabet.randomElement(using: &random)! }
            } else {
                for _ in 0...Int.random(in: 0...3) {
                    let place = Int.random(in: 0..<bytes.count)
                    switch Int.random(in: 0..<3) {
                    case 0: bytes[place] = alphabet.randomElement(using: &random)!
                    case 1: bytes.removeSubrange(place..<min(bytes.count - 1, place + Int.random(in: 0...9)))
                    default: bytes.insert(alphabet.randomElement(using: &random)!, at: place)
                    }
                }
            }
            if (try? FetchRequest.context(RequestBody.object(bytes, cap: 65_536), at: now)) != nil { understood += 1 }
        }
        #expect(understood > 1000, "most small changes leave a body that is understood")
    }

    @Test(arguments: ["appId", "appInstanceId", "appInstanceIdToken"])
    func whatIsRequiredIsMissedByName(name: String) throws {
        for replacement in ["", "null"] {
            var body = try #require(JSONValue.parse(Array(FetchBodies.android.utf8)).object)
            body[name] = replacement.isEmpty ? nil : .null
            let refusal = #expect(throws: GoogleError.self) { try FetchRequest.context(body, at: .now()) }
            #expect(refusal?.code == 400 && refusal?.message == "\(name) is missing")
        }
    }

    @Test func damagedGzipIsRefused() {
        #expect(throws: GoogleError.self) {
            try RequestBody.object([0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3, 1, 2], cap: 100)
        }
    }
}
