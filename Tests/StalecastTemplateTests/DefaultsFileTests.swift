import StalecastTemplate
import StalecastWire
import Testing

@Suite struct DefaultsFileTests {
    private let template = Template(
        conditions: [TemplateCondition(name: "c", expression: "true")],
        parameters: [
            "welcome": TemplateParameter(
                defaultValue: .value("<Hi> & \"you\"'s"), conditionalValues: ["c": .value("no")]),
            "in_app": TemplateParameter(defaultValue: .inAppDefault),
            "only_conditional": TemplateParameter(conditionalValues: ["c": .value("no")]),
            "rollout": TemplateParameter(defaultValue: .rollout(["rolloutId": "r", "value": "no"])),
        ],
        groups: ["g": ParameterGroup(parameters: ["grouped": TemplateParameter(defaultValue: .value("]]>\r\n\0é"))])])

    private func text(_ format: DefaultsFormat) -> String {
        String(decoding: template.defaultsFile(format), as: UTF8.self)
    }

    @Test func xmlIsAndroidsDefaultsMap() {
        #expect(
            text(.xml) == """
                <?xml version="1.0" encoding="utf-8"?>
                <defaultsMap>
                  <entry><key>grouped</key><value>]]&gt;&#13;
                \u{FFFD}é</value></entry>
                  <entry><key>in_app</key><value></value></entry>
                  <entry><key>welcome</key><value>&lt;Hi&gt; &amp; "you"'s</value></entry>
                </defaultsMap>

                """)
    }

    @Test func plistIsApples() {
        #expect(
            text(.plist) == """
                <?xml version="1.0" encoding="UTF-8"?>
                <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
                <plist version="1.0">
                <dict>
                  <key>grouped</key>
                  <string>]]&gt;&#13;
                \u{FFFD}é</string>
                  <key>in_app</key>
                  <string></string>
                  <key>welcome</key>
                  <string>&lt;Hi&gt; &amp; "you"'s</string>
                </dict>
                </plist>

                """)
    }

    @Test func jsonIsAFlatObjectOfStrings() throws {
        let json = try JSONValue.parse(template.defaultsFile(.json))
        #expect(json == ["grouped": "]]>\r\n\0é", "in_app": "", "welcome": "<Hi> & \"you\"'s"])
    }

    @Test func formatsHaveTheQuerysWordsAndAType() {
        #expect(["XML", "PLIST", "JSON"].map { DefaultsFormat(rawValue: $0) } == [.xml, .plist, .json])
        #expect(DefaultsFormat.allCases.map(\.contentType).allSatisfy { $0.hasSuffix("; charset=utf-8") })
        #expect(String(decoding: Template.empty.defaultsFile(.json), as: UTF8.self) == "{}\n")
    }
}
