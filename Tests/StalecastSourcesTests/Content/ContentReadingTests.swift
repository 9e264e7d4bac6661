import StalecastSources
import StalecastTemplate
import StalecastWire
import Testing

@Suite struct ContentReadingTests {
    private static let template = #"{"parameters":{"a":{"defaultValue":{"value":"1"}}}}"#

    private static func read(
        _ text: String, _ contentType: String? = nil, _ adjust: (inout ContentReading) throws -> Void = { _ in }
    ) throws -> OriginContent {
        var reading = ContentReading()
        try adjust(&reading)
        return try reading.read(Array(text.utf8), contentType: contentType, kind: .client)
    }

    private static func values(_ content: OriginContent) -> [String: String] {
        content.template.allParameters.mapValues { $0.json.text() }
    }

    @Test func readsATemplateAsJSONOrYAML() throws {
        let json = try Self.read(Self.template, "application/json; charset=utf-8")
        let yaml = try Self.read("parameters:\n  a:\n    defaultValue:\n      value: '1'\n", "application/yaml")
        #expect(json == yaml)
        #expect(json.template.parameters.keys.sorted() == ["a"])
        #expect(json.version == nil)
    }

    @Test(arguments: [nil, "text/plain", "application/octet-stream", "application/vnd.github.raw+json"])
    func theFormatIsFoundWithoutATypeThatHelps(type: String?) throws {
        #expect(try Self.read("  \n" + Self.template, type) == Self.read(Self.template))
    }

    @Test func pointersFindContentAndVersion() throws {
        let text = #"{"meta":{"rev":"17"},"data":[\#(Self.template)]}"#
        let content = try Self.read(text) {
            $0.content = try JSONPointer("/data/0")
            $0.version = try JSONPointer("/meta/rev")
        }
        #expect(content.version == 17)
        #expect(content.template.parameters.keys.sorted() == ["a"])
    }

    @Test(arguments: ["\"main\"", "0", "-3", "null", "{}", "1.5", "99999999999999999999"])
    func aVersionThatDoesNotCountIsAnErrorThatSaysWhatToDo(version: String) {
        let error = #expect(throws: OriginProblem.self) {
            try Self.read(#"{"version":{"n":\#(version)}}"#) { $0.version = try JSONPointer("/version/n") }
        }
        #expect(error?.reason == .invalidContent)
        #expect(error?.description.contains("leave versionPointer out") == true)
    }

    @Test(arguments: [("9007199254740992", true), ("9007199254740993", false), ("9223372036854775807", false)])
    func aVersionIsAtMostTwoToTheFiftyThird(version: String, isGood: Bool) throws {
        let read = {
            try Self.read(#"{"n":\#(version),"t":{}}"#) {
                $0.version = try JSONPointer("/n")
                $0.content = try JSONPointer("/t")
            }
        }
        if isGood {
            #expect(try read().version == .max)
        } else {
            let error = #expect(throws: OriginProblem.self) { try read() }
            #expect(error?.description.contains("leave versionPointer out") == true)
        }
    }

    @Test func whatIsCommonlyThereInsteadOfADocumentIsNamed() {
        let page = #expect(throws: OriginProblem.self) {
            try Self.read("<html>log in</html>", "text/html; charset=utf-8") {
                $0.content = try JSONPointer("/template")
            }
        }
        #expect(page?.description.contains("the answer is text/html") == true)
        let reading = ContentReading()
        let compressed = #expect(throws: OriginProblem.self) {
            try reading.read([0x1F, 0x8B, 8, 0, 0], contentType: "application/json", kind: .client)
        }
        #expect(compressed?.description.contains("gzip") == true)
    }

    @Test(arguments: ["{", "[]", "", "nope", #"{"parameters":[]}"#, #"{"parameters":{"a b":{}}}"#, "{}}", "\u{0}"])
    func contentThatIsNoTemplateIsAProblem(text: String) {
        let error = #expect(throws: OriginProblem.self) { try Self.read(text, "application/json") }
        #expect(error?.reason == .invalidContent)
    }

    @Test func whatAPointerMissesIsAProblem() {
        for adjust in [{ $0.content = try JSONPointer("/x") }, { $0.version = try JSONPointer("/x") }]
            as [(inout ContentReading) throws -> Void]
        {
            let error = #expect(throws: OriginProblem.self) { try Self.read(Self.template, nil, adjust) }
            #expect(error?.description.contains("/x") == true)
        }
    }

    @Test func plainValuesBecomeParameters() throws {
        let content = try Self.read(
            #"{"welcome.text":"Hi","max-items":10,"on":true,"deep":{"a":[1]},"none":null,"1st":"x"}"#
        ) { $0.shape = .values }
        #expect(
            Self.values(content) == [
                "welcome_text": #"{"defaultValue":{"value":"Hi"},"valueType":"STRING"}"#,
                "max_items": #"{"defaultValue":{"value":"10"},"valueType":"NUMBER"}"#,
                "on": #"{"defaultValue":{"value":"true"},"valueType":"BOOLEAN"}"#,
                "deep": #"{"defaultValue":{"value":"{\"a\":[1]}"},"valueType":"JSON"}"#,
                "none": #"{"defaultValue":{"useInAppDefault":true}}"#,
                "_1st": #"{"defaultValue":{"value":"x"},"valueType":"STRING"}"#,
            ])
    }

    /// The answer of a Spring Cloud Config Server.
    @Test func springsPropertySourcesMergeTheFirstOneWins() throws {
        let text = """
            {"name":"shop","profiles":["default"],"label":"main","version":"4d5c0f","state":null,"propertySources":[
            {"name":"git:application-shop.yml","source":{"banner":"sale","limit":3}},
            {"name":"git:application.yml","source":{"banner":"plain","theme.color":"red"}}]}
            """
        let content = try Self.read(text) {
            $0.content = try JSONPointer("/propertySources")
            $0.shape = .values
        }
        #expect(
            content.template.parameters.mapValues { $0.defaultValue } == [
                "banner": .value("sale"), "limit": .value("3"), "theme_color": .value("red"),
            ])
    }

    @Test(arguments: ["3", "\"x\"", "[1]", "[[]]", #"{"a.b":1,"a-b":2}"#, #"[{"a.b":1},{"a_b":2}]"#])
    func valuesThatAreNoMapAreAProblem(text: String) {
        let error = #expect(throws: OriginProblem.self) { try Self.read(text) { $0.shape = .values } }
        #expect(error?.reason == .invalidContent)
    }
}
