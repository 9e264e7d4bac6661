import NIOCore
import StalecastEdge
import StalecastTemplate
import StalecastWire
import Testing

/// OpenFeature's remote evaluation protocol over the templates of Firebase.
@Suite struct FlagTests {
    private static let projects = [
        ServedTemplates.Project(id: LiveEdge.scope.project, number: 4711, namespaces: [.firebase])
    ]
    private static let percent = "percent('s') between 0 and 50"
    /// An id in the lower half for the seed `s`, and one in the upper.
    private static let halves = ["u1", "u2", "u3", "u4", "u5", "u6", "u7", "u8"]

    private func served(_ template: Template, version: VersionNumber = 1) -> ServedTemplates {
        let served = ServedTemplates(Self.projects)
        served.install(template, .fetchable(version))
        return served
    }

    private func template(_ parameters: [String: TemplateParameter], _ conditions: [String: String] = [:]) -> Template {
        Template(
            conditions: conditions.sorted { $0.key < $1.key }.map {
                TemplateCondition(name: $0.key, expression: $0.value)
            },
            parameters: parameters)
    }

    private func body(_ context: String) -> [UInt8] { Array("{\"context\":\(context)}".utf8) }

    private func one(_ served: ServedTemplates, _ key: String, _ context: String = "{}") throws -> JSONValue {
        let answer = try served.scope("demo", "firebase").flags(body(context), FlagRequest(key: key))
        return try JSONValue.parse(answer.bytes.body.readableBytesView)
    }

    private func all(
        _ served: ServedTemplates, _ context: String = "{}", ifNoneMatch: String? = nil, announced: String? = nil
    ) throws -> (json: JSONValue?, head: String) {
        let query = announced.map { "flagConfigEtag=\($0)" } ?? ""
        let bytes = try served.scope("demo", "firebase").flags(
            body(context), FlagRequest(ifNoneMatch: ifNoneMatch, query: query[...])
        ).bytes
        let json = bytes.body.readableBytes == 0 ? nil : try JSONValue.parse(bytes.body.readableBytesView)
        return (json, String(buffer: bytes.head))
    }

    private func tag(_ head: String) throws -> String {
        let line = try #require(head.split(separator: "\r\n").first { $0.hasPrefix("ETag: ") })
        return String(line.dropFirst(6))
    }

    private func refusal(_ body: () throws -> Void) -> FlagRefusal? {
        do { try body() } catch { return error as? FlagRefusal }
        return nil
    }

    // MARK: Values

    @Test(arguments: [
        ("a", ValueType.string, "\"a\""), ("3", .string, "\"3\""), ("TRUE", .boolean, "true"),
        ("yes", .boolean, "true"),
        ("no", .boolean, "false"), ("3.0", .number, "3.0"), ("-.5", .number, "-0.5"), ("007", .number, "7"),
        ("0", .number, "0"), ("-0.10", .number, "-0.10"), ("{ \"a\" : [1] }", .json, "{\"a\":[1]}"),
    ])
    func valuesHaveTheTypeOfTheirParameter(text: String, type: ValueType, json: String) throws {
        #expect(FlagValue.json(text, type)?.text() == json)
        let served = served(template(["p": TemplateParameter(defaultValue: .value(text), valueType: type)]))
        #expect(try one(served, "p")["value"]?.text() == json)
    }

    @Test(arguments: [("", ValueType.number), ("1.", .number), ("1e5", .number), ("{", .json), ("--1", .number)])
    func aValueThatIsNoneOfItsTypeIsAParseErrorAndNoOtherFlagsFault(text: String, type: ValueType) throws {
        let served = served(
            template([
                "good": TemplateParameter(defaultValue: .value("x")),
                "bad": TemplateParameter(defaultValue: .value(text), valueType: type),
            ]))
        #expect(refusal { _ = try one(served, "bad") }?.code == .parseError)
        let flags = try #require(try all(served).json?["flags"]?.array)
        #expect(flags[0]["errorCode"] == "PARSE_ERROR" && flags[1]["value"] == "x")
    }

    // MARK: Reasons

    @Test func theReasonSaysWhichValueWasTaken() throws {
        let served = served(
            template(
                [
                    "fixed": TemplateParameter(defaultValue: .value("d")),
                    "inApp": TemplateParameter(defaultValue: .inAppDefault),
                    "who": TemplateParameter(
                        defaultValue: .value("d"), conditionalValues: ["pro": .value("p"), "half": .value("h")]),
                ], ["pro": "app.customSignal['plan'].exactlyMatches(['pro'])", "half": Self.percent]))
        #expect(try one(served, "fixed")["reason"] == "STATIC")
        let inApp = try one(served, "inApp")
        #expect(inApp["value"] == nil && inApp["reason"] == "DEFAULT" && inApp["variant"] == "default")
        var reasons: Set<String> = []
        for id in Self.halves {
            let flag = try one(served, "who", "{\"targetingKey\":\"\(id)\"}")
            reasons.insert(try #require(flag["reason"]?.string))
            #expect(flag["variant"] == (flag["value"] == "h" ? "half" : "default"))
        }
        #expect(reasons == ["SPLIT", "DEFAULT"])
        let both = try Self.halves.map { try one(served, "who", "{\"targetingKey\":\"\($0)\",\"plan\":\"pro\"}") }
        // `half` comes first in the template.
        #expect(Set(both.compactMap { $0["reason"]?.string }) == ["SPLIT", "TARGETING_MATCH"])
    }

    @Test func aFlagOfOneRequestIsThatOfAll() throws {
        let served = served(
            template(
                [
                    "a": TemplateParameter(defaultValue: .value("d"), conditionalValues: ["c": .value("é\"")]),
                    "b": TemplateParameter(
                        defaultValue: .rollout(["rolloutId": "r", "value": "on", "percent": 50]), valueType: .string),
                    "c": TemplateParameter(
                        defaultValue: .experiment([
                            "experimentId": "e",
                            "variantValue": [["variantId": "v0", "value": "x"], ["noChange": true]],
                        ])),
                ], ["c": Self.percent]))
        for id in Self.halves {
            let context = "{\"targetingKey\":\"\(id)\"}"
            for flag in try #require(try all(served, context).json?["flags"]?.array) {
                let key = try #require(flag["key"]?.string)
                var single = try #require(try one(served, key, context).object)
                #expect(single["metadata"] == ["templateVersion": "1"])
                single["metadata"] = nil
                #expect(JSONValue.object(single) == flag)
            }
        }
    }

    @Test func aPercentageWantsATargetingKeyAndItsAnswerIsThatClientsAlone() throws {
        let served = served(
            template(
                [
                    "free": TemplateParameter(defaultValue: .value("f")),
                    "split": TemplateParameter(defaultValue: .value("d"), conditionalValues: ["half": .value("h")]),
                ], ["half": Self.percent]))
        #expect(refusal { _ = try one(served, "split") }?.code == .targetingKeyMissing)
        #expect(try one(served, "free")["value"] == "f")
        var tags: [String] = []
        for context in ["{}"] + Self.halves.map({ "{\"targetingKey\":\"\($0)\"}" }) + ["{\"targetingKey\":\"\"}"] {
            let answer = try all(served, context)
            let split = try #require(answer.json?["flags"]?.array)[1]
            #expect((split["errorCode"] == "TARGETING_KEY_MISSING") == (split["value"] == nil))
            tags.append(try tag(answer.head))
        }
        #expect(tags.first == tags.last && Set(tags).count == 3)
    }

    // MARK: Contexts

    @Test(arguments: [
        ("device.os == 'ios'", #"{"platform":"iOS"}"#), ("device.os == 'web'", #"{"os":"web"}"#),
        ("app.version.>=(['2.1'])", #"{"appVersion":"2.10.0"}"#), ("device.country in ['DE']", #"{"country":"de"}"#),
        ("device.language in ['de']", #"{"languageCode":"de-AT"}"#), ("app.build.==(['7'])", #"{"appBuild":7}"#),
        ("app.customSignal['beta'].exactlyMatches(['true'])", #"{"beta":true}"#),
        ("app.customSignal['age'] >= 18", #"{"age":21,"email":null,"list":[1],"object":{}}"#),
    ])
    func attributesAreTheInputsOfConditions(expression: String, context: String) throws {
        let served = served(
            template(
                ["p": TemplateParameter(defaultValue: .value("no"), conditionalValues: ["c": .value("yes")])],
                ["c": expression]))
        #expect(try one(served, "p", context)["value"] == "yes")
        #expect(try one(served, "p")["value"] == "no")
    }

    @Test(arguments: [
        ("", FlagRefusal.Code.parseError), ("[]", .parseError), ("{\"context\":", .parseError),
        ("{\"context\":3}", .invalidContext), ("{\"context\":[]}", .invalidContext),
        ("{\"context\":{\"targetingKey\":1}}", .invalidContext),
    ])
    func bodiesThatCannotBeUnderstoodAreRefused(text: String, code: FlagRefusal.Code) throws {
        let scope = try served(template([:])).scope("demo", "firebase")
        for key in [nil, "p"] {
            let refused = refusal { _ = try scope.flags(Array(text.utf8), FlagRequest(key: key)) }
            #expect(refused?.code == code && refused?.status == 400 && refused?.details.isEmpty == false)
        }
    }

    @Test func aContextHasABoundedNumberOfMembers() throws {
        let served = served(.of(["p": "x"]))
        func context(_ count: Int) -> String { "{" + (0..<count).map { "\"a\($0)\":1" }.joined(separator: ",") + "}" }
        #expect(try one(served, "p", context(256))["value"] == "x")
        #expect(refusal { _ = try one(served, "p", context(257)) }?.code == .invalidContext)
        let long = refusal { _ = try served.scope("demo", "firebase").flags(gzipBomb, maxBodyBytes: 1024) }
        #expect(long?.status == 413)
    }

    /// 64 KB of blanks.
    private var gzipBomb: [UInt8] {
        [
            0x1F, 0x8B, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xED, 0xC1, 0x81, 0x00, 0x00, 0x00, 0x00, 0x80,
            0x20, 0x95, 0xFD, 0x29, 0x17, 0xA9, 0x0A,
        ]
            + [UInt8](repeating: 0, count: 63) + [0x6A, 0x94, 0x19, 0x2C, 0xB4, 0x00, 0x00, 0x01, 0x00]
    }

    // MARK: Tags

    @Test func anEqualTagIsNotModifiedUntilTheAnswerIsAnother() throws {
        let first = served(
            template(
                ["p": TemplateParameter(defaultValue: .value("a"), conditionalValues: ["c": .value("b")])],
                ["c": "app.customSignal['s'].exactlyMatches(['1'])"]))
        let tag = try tag(try all(first).head)
        #expect(tag.hasPrefix("\"ofrep-4711-firebase-") && tag.hasSuffix("\""))
        for spelling in [tag, "W/\(tag)"] {
            let again = try all(first, ifNoneMatch: spelling)
            #expect(
                again.json == nil && again.head.hasPrefix("HTTP/1.1 304 ") && !again.head.contains("Content-Length"))
            #expect(try self.tag(again.head) == tag)
        }
        #expect(try all(first, "{\"s\":1}", ifNoneMatch: tag).json != nil, "another outcome is another answer")
        first.install(.of(["p": "a"]), .fetchable(2))
        #expect(try all(first, ifNoneMatch: tag).json?["metadata"] == ["templateVersion": "2"])
    }

    @Test func oneOutcomeIsRenderedOnceAndAReplacedVersionIsForgotten() throws {
        let served = served(.of(["p": "a"]))
        for number in 0..<5 { _ = try all(served, "{\"targetingKey\":\"u\(number)\"}") }
        #expect(served.renderings.count == 1)
        served.install(.of(["p": "b"]), .fetchable(2))
        #expect(served.renderings.count == 0)
        #expect(try all(served).json?["flags"]?.array?.first?["value"] == "b")
    }

    /// `etag-1-7` is what messages of version 7 say in these tests.
    @Test(arguments: [
        ("etag-1-8", true), ("\"etag-1-8\"", true), ("etag-1-7", false), ("etag-1-6", false), ("etag-2-8", false),
        ("abc", false), ("", false), ("etag-1-99999999999999999999", false),
    ])
    func anAnswerIsNeverOlderThanTheMessageThatCausedIt(announced: String, isRefused: Bool) throws {
        let served = served(.of(["p": "a"]), version: 7)
        let refused = refusal { _ = try all(served, announced: announced) }
        #expect((refused?.status == 503) == isRefused)
    }

    @Test func aScopeWithoutAVersionHasNoFlags() throws {
        let served = ServedTemplates(Self.projects)
        #expect(try all(served).json == ["flags": [], "metadata": ["templateVersion": "0"]])
        #expect(refusal { _ = try one(served, "p") }?.status == 404)
        #expect(refusal { _ = try one(self.served(.of(["p": "a"])), "q") }?.code == .flagNotFound)
    }
}
