import StalecastTemplate
import StalecastWire
import StalecastTestSupport
import Testing

@Suite struct TemplateJSONTests {
    /// Canonical: what is written for it is this text again.
    static let whole = #"""
        {"conditions":[{"name":"ios_fr","expression":"device.os == 'ios' && device.country in ['FR']","tagColor":"BLUE"
        },
        {"name":"some","expression":"percent <= 10"}],
        "parameters":{"a":{"defaultValue":{"personalizationValue":{"personalizationId":"p1"}}},
        "legacy_flag":{"defaultValue":{"useInAppDefault":true},"valueType":"BOOLEAN"},
        "r":{"defaultValue":{"value":"x"},"conditionalValues":{
        "ios_fr":{"experimentValue":{"experimentId":"e","variantValue":[
        {"variantId":"0","noChange":true},{"variantId":"1","value":"b"}],"exposurePercent":50}},
        "some":{"rolloutValue":{"rolloutId":"rollout_1","value":"on","percent":25.10}}}},
        "welcome_text":{"defaultValue":{"value":"Hello"},"conditionalValues":{"ios_fr":{"value":"Bonjour"}},
        "description":"greeting on the home screen","valueType":"STRING"}},
        "parameterGroups":{"Checkout":{"description":"payment flags","parameters":{
        "new_pay":{"defaultValue":{"value":"false"},"valueType":"BOOLEAN"}}},
        "Empty":{"parameters":{}}}}
        """#.replacing("\n", with: "")

    @Test func canonicalDocumentComesOutAsItWentIn() throws {
        let template = try Template.make(Self.whole)
        #expect(template.json.text() == Self.whole)
        #expect(try Template(stored: template.json) == template)
    }

    @Test func emptyTemplateHasExplicitCollections() throws {
        #expect(Template.empty.json.text() == #"{"conditions":[],"parameters":{},"parameterGroups":{}}"#)
        for text in ["{}", #"{"parameters":null,"conditions":null,"parameterGroups":{}}"#] {
            #expect(try Template.make(text) == .empty)
        }
    }

    @Test func snakeCaseIsAcceptedAndCamelCaseWritten() throws {
        let template = try Template.make(
            #"""
            {"conditions":[{"name":"c","expression":"true","tag_color":"DEEP_ORANGE"}],
             "parameters":{"snake_case_key":{"default_value":{"use_in_app_default":true},
               "conditional_values":{"c":{"rollout_value":{"rollout_id":"r","value":"v","percent":1,"other_thing":2}}},
               "value_type":"STRING"}},
             "parameter_groups":{"g_h":{"parameters":{}}}}
            """#)
        let expected = #"""
            {"conditions":[{"name":"c","expression":"true","tagColor":"DEEP_ORANGE"}],
            "parameters":{"snake_case_key":{"defaultValue":{"useInAppDefault":true},
            "conditionalValues":{"c":{"rolloutValue":{"rolloutId":"r","value":"v","percent":1,"other_thing":2}}},
            "valueType":"STRING"}},"parameterGroups":{"g_h":{"parameters":{}}}}
            """#.replacing("\n", with: "")
        #expect(template.json.text() == expected)
    }

    @Test func etagAndVersionAreIgnoredButForTheDescription() throws {
        let template = try Template.make(
            #"{"etag":"etag-1-2","version":{"versionNumber":"9","description":"winter","bogus":1,"isLegacy":true}}"#)
        #expect(template.requestedDescription == "winter")
        #expect(template.json == Template.empty.json)
        #expect(try Template.make(#"{"version":null,"etag":7}"#) == .empty)
    }

    @Test func storedTemplateIsReadEvenWhenARuleBecameStricter() throws {
        let json = try JSONValue.parse(#"{"conditions":[{"name":" odd ","expression":"nonsense ("}]}"#.utf8)
        #expect(try Template(stored: json).conditions.first?.expression == "nonsense (")
        #expect(throws: TemplateProblems.self) { try Template(stored: [1]) }
    }

    @Test func lettersComposedAndDecomposedAreDifferentValues() {
        #expect(Template.make(["a": "\u{E9}"]) != Template.make(["a": "e\u{301}"]))
        #expect(
            TemplateDifference.changedKeys(from: .make(["a": "\u{E9}"]), to: .make(["a": "e\u{301}"])) == ["a"])
    }

    @Test func kindFollowsTheNamespace() throws {
        #expect(TemplateKind(namespace: .firebase) == .client)
        #expect(TemplateKind(namespace: .firebaseServer) == .server)
        #expect(TemplateKind(namespace: try Namespace("other")) == .client)
    }

    /// Mutations of a document, from a fixed seed: never a crash, and what is accepted survives the store.
    @Test func mutatedTemplatesNeverCrash() throws {
        var random = SeededRandom(seed: 5)
        let source = Array(Self.whole.utf8)
        var accepted = 0
        for _ in 0..<5000 {
            var bytes = source
            for _ in 0...Int(random.next() % 2) {
                let start = Int(random.next() % UInt64(bytes.count))
                let end = min(bytes.count, start + Int(random.next() % 12))
                let from = Int(random.next() % UInt64(bytes.count - 12))
                bytes.replaceSubrange(start..<end, with: Array(bytes[from..<from + Int(random.next() % 12)]))
            }
            guard let json = try? JSONValue.parse(bytes) else { continue }
            guard let template = try? Template(validating: json, kind: .client) else { continue }
            accepted += 1
            #expect(try Template(stored: template.json) == template)
            #expect(try Template(validating: template.json, kind: .client) == template)
        }
        #expect(accepted > 20)
    }
}
