import StalecastHTTP
import NIOCore
import StalecastEdge
import StalecastTemplate
import StalecastTestSupport
import StalecastWire
import Testing

@Suite struct FetchAnswerTests {
    private static let scope = LiveEdge.scope
    private static let projects = [
        ServedTemplates.Project(id: scope.project, number: 4711, namespaces: [.firebase, .firebaseServer])
    ]

    private func served(_ versions: [[String: String]]) -> ServedTemplates {
        let served = ServedTemplates(Self.projects)
        for (position, values) in versions.enumerated() {
            served.install(.of(values), .fetchable(VersionNumber(clamping: position + 1)))
        }
        return served
    }

    private func answer(
        _ served: ServedTemplates, body: String = FetchBodies.js, ifNoneMatch: String? = nil
    ) throws -> (json: JSONValue, etag: String) {
        let scope = try served.scope("demo", "firebase")
        let bytes = try scope.answer(Array(body.utf8), ifNoneMatch: ifNoneMatch, maxBodyBytes: 65_536).bytes
        let head = String(buffer: bytes.head)
        let line = try #require(head.split(separator: "\r\n").first { $0.hasPrefix("ETag: ") })
        return (try JSONValue.parse(bytes.body.readableBytesView), String(line.dropFirst(6)))
    }

    @Test func hashIsThatOfJava() {
        #expect(JavaHash("{\"dog_type\":\"beagle\"}").value == -2_039_110_429)
        #expect(JavaHash("").value == 0 && JavaHash("😀").value == 0xD83D * 31 + 0xDE00)
        for cut in 0...12 {
            let text = "é😀dog_type\"x"
            var joined = JavaHash(String(text.prefix(cut)))
            joined.append(JavaHash(String(text.dropFirst(cut))))
            #expect(joined.value == JavaHash(text).value)
        }
    }

    @Test func aContentHashOfPartsIsThatOfTheWhole() {
        let text = "é😀dog_type\"x\0"
        for cut in 0...text.count {
            var joined = ContentHash(String(text.prefix(cut)))
            joined.append(ContentHash(String(text.dropFirst(cut))))
            #expect(joined.text == ContentHash(text).text)
        }
        // The nodes of a cluster, and the program after this one, must say the same.
        #expect(ContentHash("{\"dog_type\":\"beagle\"}").text == "-2039110429-0fb392fe9c36674b")
    }

    /// A client that comes to meet a condition must not be told that nothing changed.
    @Test(arguments: [("Aa", "BB"), ("v1P", "v21"), ("#7fAa00", "#7fBB00")])
    func valuesOfOneJavaHashHaveTwoTags(value: String, other: String) {
        #expect(JavaHash(value).value == JavaHash(other).value)
        let condition = TemplateCondition(name: "c", expression: "app.customSignal['s'].exactlyMatches(['1'])")
        let parameter = TemplateParameter(defaultValue: .value(value), conditionalValues: ["c": .value(other)])
        let template = CompiledTemplate(Template(conditions: [condition], parameters: ["p": parameter]))
        let renderer = FetchRenderer(ReadyTemplate(template), version: 7, scope: Self.scope, projectNumber: 4711)
        let tags = [[:], ["s": "1"]].map {
            renderer.rendering(of: template.outcome(for: EvaluationContext(appInstanceID: "a", customSignals: $0))).etag
        }
        #expect(Set(tags).count == 2)
    }

    /// Answers are joined of pieces; their text, and the text the ETag is a hash of, must be those of the whole.
    @Test(arguments: 0..<20) func whatIsJoinedIsWhatTheTemplateSays(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let names = ["a", "é", "Z", "z\"\\\n", "😀", "", "k_1", "\u{7f}", "e\u{301}\u{323}", "10", "9"]
        let kinds: [(String) -> ParameterValue] = [
            { .value($0) }, { .value($0) }, { _ in .inAppDefault },
            { .personalization(["personalizationId": .string($0)]) },
            { .rollout(["rolloutId": "r", "value": .string($0), "percent": 50]) },
            {
                .experiment([
                    "experimentId": "e",
                    "variantValue": [["variantId": "b", "value": .string($0)], ["noChange": true]],
                ])
            },
        ]
        func value() -> ParameterValue {
            kinds[Int.random(in: 0..<kinds.count, using: &random)](
                names[Int.random(in: 0..<names.count, using: &random)])
        }
        var parameters: [String: TemplateParameter] = [:]
        for name in names where Bool.random(using: &random) {
            parameters[name] = TemplateParameter(
                defaultValue: Bool.random(using: &random) ? value() : nil,
                conditionalValues: Bool.random(using: &random) ? ["c": value(), "d": value()] : [:])
        }
        let conditions = ["c", "d"].map {
            TemplateCondition(name: $0, expression: "app.customSignal['\($0)'].exactlyMatches(['1'])")
        }
        let template = CompiledTemplate(Template(conditions: conditions, parameters: parameters))
        let renderer = FetchRenderer(ReadyTemplate(template), version: 7, scope: Self.scope, projectNumber: 4711)
        for number in 0..<32 {
            let signals = ["c": "\(number & 1)", "d": "\(number >> 1 & 1)"]
            let outcome = template.outcome(for: EvaluationContext(appInstanceID: "\(number)", customSignals: signals))
            let rendering = renderer.rendering(of: outcome)
            var canonical = template.values(for: outcome).members
            var body = canonical
            canonical["templateVersion"] = "7"
            body["state"] = canonical.count > 1 ? "UPDATE" : "EMPTY_CONFIG"
            body["templateVersion"] = "7"
            if canonical.count > 1 { body["personalizationMetadata"] = [:] }
            #expect(String(buffer: rendering.update.body) == JSONValue.object(body).text(JSONStyle(asciiOnly: false)))
            let hashed = JSONValue.object(canonical).text(JSONStyle(asciiOnly: false, sortedKeys: true))
            #expect(rendering.etag == "etag-4711-firebase-fetch-\(ContentHash(hashed).text)")
        }
    }

    @Test(arguments: FetchBodies.all) func anUpdateHasEverythingClientsNeed(body: String) throws {
        let (json, etag) = try answer(served([["a": "1", "b": ""]]), body: body)
        #expect(json["entries"] == ["a": "1", "b": ""])
        #expect(json["state"] == "UPDATE" && json["templateVersion"] == "1")
        #expect(json["personalizationMetadata"] == [:])
        #expect(etag.wholeMatch(of: /etag-4711-firebase-fetch--?[0-9]+-[0-9a-f]{16}/) != nil)
    }

    @Test func aScopeWithoutVersionsHasNoTemplate() throws {
        let (json, etag) = try answer(served([]))
        #expect(json == ["state": "NO_TEMPLATE", "templateVersion": "0"])
        #expect(etag.hasPrefix("etag-4711-firebase-fetch-"))
    }

    @Test func aTemplateWithNothingForTheInstanceIsAnEmptyConfig() throws {
        let (json, _) = try answer(served([[:]]))
        #expect(json == ["state": "EMPTY_CONFIG", "templateVersion": "1"])
    }

    @Test func anEqualETagIsNoChangeWhateverProxiesDidToIt() throws {
        let served = served([["a": "1"]])
        let etag = try answer(served).etag
        for spelling in [etag, "\"\(etag)\"", "W/\"\(etag)\""] {
            let second = try answer(served, ifNoneMatch: spelling)
            #expect(second.json == ["state": "NO_CHANGE", "templateVersion": "1"] && second.etag == etag)
        }
        for other in ["*", "", "\"", "W/", etag + "1", "etag-4711-firebase-fetch-1"] {
            #expect(try answer(served, ifNoneMatch: other).json["state"] == "UPDATE", "\(other)")
        }
    }

    @Test func equalContentInANewVersionIsAnUpdate() throws {
        let first = try answer(served([["a": "1"]]))
        let second = try answer(served([["a": "1"], ["a": "1"]]), ifNoneMatch: first.etag)
        #expect(second.json["state"] == "UPDATE" && second.json["templateVersion"] == "2")
        #expect(second.etag != first.etag)
    }

    @Test func anInstalledVersionIsWhatTheNextFetchGets() throws {
        let served = served([["a": "1"]])
        _ = try answer(served)
        served.install(.of(["a": "2"]), .fetchable(2))
        #expect(try answer(served).json["entries"] == ["a": "2"])
        #expect(served.renderings.count == 1, "the answers of the version before are gone")
    }

    @Test func oneOutcomeIsRenderedOnce() throws {
        let served = served([["a": "1"]])
        for body in FetchBodies.all { _ = try answer(served, body: body) }
        #expect(served.renderings.count == 1)
    }

    @Test func instancesWithOneOutcomeShareARenderingAndOthersGetTheirOwn() throws {
        let served = ServedTemplates(Self.projects)
        var parameter = TemplateParameter(defaultValue: .value("other"))
        parameter.conditionalValues = ["web": .value("web"), "ios": .inAppDefault]
        let conditions = ["web", "ios"].map { TemplateCondition(name: $0, expression: "device.os == '\($0)'") }
        served.install(Template(conditions: conditions, parameters: ["who": parameter]), .fetchable(1))
        for _ in 0..<2 {
            #expect(try answer(served, body: FetchBodies.js).json["entries"] == ["who": "web"])
            #expect(try answer(served, body: FetchBodies.android).json["entries"] == ["who": "other"])
            #expect(try answer(served, body: FetchBodies.cpp).json["entries"] == ["who": "other"])
            #expect(try answer(served, body: FetchBodies.ios).json["state"] == "EMPTY_CONFIG")
        }
        #expect(served.renderings.count == 3)
        #expect(try answer(served, body: FetchBodies.js).etag != answer(served, body: FetchBodies.android).etag)
    }

    @Test func projectsHaveTwoNamesAndServerTemplatesAreNotServed() throws {
        let served = served([["a": "1"]])
        #expect(try served.scope("4711", "firebase") === served.scope("demo", "firebase"))
        #expect(served.scope(atPath: "/v1/projects/4711/namespaces/firebase:fetch") != nil)
        for (project, namespace) in [("x", "firebase"), ("demo", "x"), ("demo", "firebase-server")] {
            #expect(throws: GoogleError.self) { try served.scope(project, namespace) }
        }
    }
}
