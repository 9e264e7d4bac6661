import StalecastEdge
import StalecastHTTP
import StalecastTemplate
import StalecastTestSupport
import StalecastWire
import Testing

/// Contexts and paths of LaunchDarkly's SDKs.
@Suite struct LaunchDarklyContextTests {
    private static let now = Timestamp(microseconds: 0)

    private func context(_ json: String) throws -> EvaluationContext {
        let plain = FlagContext.context(try LaunchDarklyContext(Array(json.utf8)).fields, at: Self.now)
        let encoded = Base64URL.encode(Array(json.utf8))
        for padding in ["", String(repeating: "=", count: (4 - encoded.utf8.count % 4) % 4)] {
            let decoded = FlagContext.context(try LaunchDarklyContext(base64: encoded + padding).fields, at: Self.now)
            #expect(decoded == plain, "read in two ways")
        }
        return plain
    }

    @Test func aContextOfOneKindIsAnInstanceWithItsAttributes() throws {
        let context = try context(
            #"{"kind":"user","key":"ü@b.example","plan":"pro","seats":7,"beta":true,"_meta":{"privateAttributes":["x"]},"#
                + #""platform":"iOS","appVersion":"2.1","country":"DE","deep":{"a":1},"none":null,"targetingKey":"t"}"#)
        #expect(context.appInstanceID == "ü@b.example" && context.statedPlatform == "ios")
        #expect(context.appVersion == "2.1" && context.countryCode == "DE")
        #expect(context.customSignals == ["plan": "pro", "seats": "7", "beta": "true", "targetingKey": "t"])
    }

    @Test func aUserOfOlderSDKsHasItsOwnAttributesBesideTheBuiltInOnes() throws {
        let context = try context(
            #"{"key":"u","country":"FR","custom":{"plan":"pro","country":"DE"},"privateAttributeNames":["plan"]}"#)
        #expect(context.appInstanceID == "u" && context.countryCode == "FR" && context.customSignals == ["plan": "pro"])
        #expect(try self.context(#"{"key":17}"#).appInstanceID == "17", "older SDKs send what the app gave them")
    }

    @Test func ofSeveralKindsTheUserIsTheClient() throws {
        let user = try context(
            #"{"kind":"multi","device":{"key":"d","model":"x","platform":"web"},"user":{"key":"u","plan":"pro"}}"#)
        #expect(user.appInstanceID == "u" && user.statedPlatform == nil)
        #expect(
            user.customSignals == [
                "plan": "pro", "device.key": "d", "device.model": "x", "device.platform": "web",
            ])
        let first = try context(#"{"kind":"multi","org":{"key":"o"},"device":{"key":"d","platform":"web"}}"#)
        #expect(first.appInstanceID == "d" && first.statedPlatform == "web" && first.customSignals == ["org.key": "o"])
    }

    @Test(arguments: [
        "", "{", "[]", "7", "null", "{}", #"{"kind":"user"}"#, #"{"kind":"user","key":""}"#, #"{"kind":"","key":"k"}"#,
        #"{"kind":"user","key":{}}"#, #"{"kind":7,"key":"k"}"#, #"{"kind":"kind","key":"k"}"#, #"{"kind":"multi"}"#,
        #"{"kind":"a b","key":"k"}"#, #"{"kind":"multi","user":"u"}"#, #"{"kind":"multi","user":{}}"#,
        #"{"kind":"multi","user":{"key":"u"},"device":{}}"#, #"{"kind":"multi","multi":{"key":"k"}}"#,
        #"{"key":"k","key":"l"}"#, "{\"key\":\"k\",\"a\":" + String(repeating: "[", count: 4000),
        "{\"key\":\"k\"" + (0..<300).map { ",\"a\($0)\":1" }.joined() + "}",
        "{\"kind\":\"multi\"" + (0..<300).map { ",\"a\($0)\":{\"key\":\"k\"}" }.joined() + "}",
    ])
    func whatIsNoContextIsRefusedWithASentence(json: String) {
        for read in [
            { _ = try LaunchDarklyContext(Array(json.utf8)) },
            { _ = try LaunchDarklyContext(base64: Base64URL.encode(Array(json.utf8))) },
        ] {
            let error = #expect(throws: GoogleError.self) { try read() }
            #expect(error?.code == 400)
        }
    }

    @Test(arguments: ["*", "eyJ", "e", "====", "eyJrZXkiOiJrIn0===", "eyJr ZXkiOiJrIn0", "é", "eyJrZXkiOiJrIn1="])
    func hostileBase64IsRefused(text: String) {
        let error = #expect(throws: GoogleError.self) { try LaunchDarklyContext(base64: text) }
        #expect(error?.code == 400)
    }

    @Test(arguments: [
        GrowingText(#","a#":1"#, after: #"{"key":"k""#, before: "}"), GrowingText("[", after: #"{"key":"k","a":"#),
        GrowingText(#","a#":{"key":"k"}"#, after: #"{"kind":"multi""#, before: "}"),
        GrowingText(#""a#":1,"#, after: #"{"kind":"multi","u":{"key":"k","#, before: #""z":1}}"#),
        GrowingText("x", after: #"{"key":""#, before: #""}"#), GrowingText("\\u00e9", after: #"{"key":"k","a":""#),
        GrowingText(#""a#":1,"#, after: #"{"key":"k","custom":{"#, before: #""z":1}}"#), GrowingText("{"),
    ])
    func readingIsLinear(json: GrowingText) throws {
        try expectLinear(upTo: 1 << 16, json.bytes) { bytes in _ = try LaunchDarklyContext(bytes) }
        try expectLinear(upTo: 1 << 16, { Base64URL.encode(json.bytes($0)) }) { text in
            _ = try LaunchDarklyContext(base64: text)
        }
    }

    // MARK: Paths

    @Test(
        arguments: [
            ("/sdk/evalx/demo/contexts/e30", "/sdk/evalx", "demo", nil), ("/eval/demo~k/e30", "/eval", "demo", "k"),
            ("/ping/123", "/ping", "123", nil), ("/sdk/goals/~k", "/sdk/goals", nil, "k"),
            ("/ping/", "/ping", nil, nil),
            ("/events/bulk/d%C3%A9mo", "/events/bulk", "démo", nil), ("/eval/%zz", "/eval", nil, nil),
        ] as [(Substring, String, String?, String?)])
    func aPathNamesItsProjectAndKey(path: Substring, stem: String, project: String?, key: String?) throws {
        let found = try #require(LaunchDarklyPath(path, authorization: "Bearer x"))
        #expect(found.stem == stem && found.project == project && found.key == key && !found.isMobile)
    }

    @Test(
        arguments: [("demo~k", "demo", "k"), ("api_key demo", "demo", nil), (nil, nil, nil)]
            as [(String?, String?, String?)])
    func aMobileSDKNamesThemInAuthorization(header: String?, project: String?, key: String?) throws {
        for path in ["/msdk/evalx/context", "/meval", "/meval/e30", "/mping", "/mobile/events/bulk"] {
            let found = try #require(LaunchDarklyPath(path[...], authorization: header))
            #expect(found.project == project && found.key == key && found.isMobile)
        }
    }

    @Test(arguments: ["/v1/events", "/", "", "/pings/x", "/sdk/flags", "/evalx/demo", "/healthz", "/mobiles"])
    func otherPathsAreOfOtherClients(path: String) { #expect(LaunchDarklyPath(path[...]) == nil) }
}
