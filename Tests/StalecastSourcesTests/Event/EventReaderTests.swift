import Foundation
import StalecastSources
import StalecastWire
import Testing

@Suite struct EventReaderTests {
    private static let type = "google.firebase.remoteconfig.remoteConfig.v1.updated"
    private static let source = "//firebaseremoteconfig.googleapis.com/projects/demo-project"
    private static let data = #"{"versionNumber":7,"updateType":"ROLLBACK","rollbackSource":3}"#

    private static func read(_ headers: [String: String], _ body: String) throws -> [SourceEvent] {
        try EventReader.events(headers: headers, body: Array(body.utf8))
    }

    private static func binary(_ changes: [String: String?] = [:]) -> [String: String] {
        var headers = [
            "content-type": "application/json", "ce-specversion": "1.0", "ce-id": "e-1", "ce-type": type,
            "ce-source": source,
        ]
        for (name, value) in changes { headers[name] = value }
        return headers
    }

    private static func structured(_ more: String = "", data: String? = nil) -> String {
        #"{"specversion":"1.0","id":"e-1","type":"\#(type)","source":"\#(source)","#
            + #""data":\#(data ?? Self.data)\#(more)}"#
    }

    private static let expected = SourceEvent(
        form: .cloudEvent, id: "e-1", sender: source, project: "demo-project", version: 7)

    @Test func readsBinaryMode() throws {
        #expect(try Self.read(Self.binary(), Self.data) == [Self.expected])
    }

    @Test(arguments: ["application/cloudevents+json", "Application/CloudEvents+JSON; charset=utf-8"])
    func readsStructuredMode(contentType: String) throws {
        #expect(try Self.read(["content-type": contentType], Self.structured()) == [Self.expected])
    }

    @Test func readsABatchInOrder() throws {
        let second = Self.structured().replacing("e-1", with: "e-2").replacing(":7", with: ":\"8\"")
        let events = try Self.read(
            ["content-type": "application/cloudevents-batch+json"], "[\(Self.structured()),\(second)]")
        #expect(events.map(\.id) == ["e-1", "e-2"])
        #expect(events.map(\.version) == [7, 8])
        #expect(try Self.read(["content-type": "application/cloudevents-batch+json"], "[]").isEmpty)
    }

    @Test func dataMayBeBase64() throws {
        let encoded = Data(Self.data.utf8).base64EncodedString()
        let body = Self.structured().replacing("\"data\":\(Self.data)", with: "\"data_base64\":\"\(encoded)\"")
        #expect(try Self.read(["content-type": "application/cloudevents+json"], body) == [Self.expected])
    }

    @Test func anEventOfAnUnknownTypeOnlyCausesAPoll() throws {
        let event = try #require(
            try Self.read(Self.binary(["ce-type": "com.example.object.finalized"]), Self.data).first)
        #expect(event == SourceEvent(form: .cloudEvent, id: "e-1", sender: Self.source))
    }

    @Test func headerValuesArePercentDecoded() throws {
        let event = try #require(try Self.read(Self.binary(["ce-id": "Euro%20%E2%82%AC"]), "").first)
        #expect(event.id == "Euro €")
        #expect(event.version == nil)
    }

    @Test(arguments: ["ce-specversion", "ce-id", "ce-type", "ce-source"])
    func aRequiredAttributeMustBeThere(name: String) {
        for value in [nil, ""] {
            let error = #expect(throws: SourceEvent.Problem.self) {
                try Self.read(Self.binary([name: value]), Self.data)
            }
            #expect(error?.description.contains(name.dropFirst(3)) == true)
            #expect(error?.status == 400)
        }
    }

    @Test(arguments: [
        ("ce-specversion", "0.3"), ("ce-specversion", "1.0 "), ("ce-id", "%zz"), ("ce-id", "%ff"),
        ("ce-id", String(repeating: "x", count: 2049)), ("ce-source", String(repeating: "x", count: 60_000)),
    ])
    func hostileAttributesAreRefused(name: String, value: String) {
        #expect(throws: SourceEvent.Problem.self) { try Self.read(Self.binary([name: value]), Self.data) }
    }

    @Test(arguments: [
        "", "[]", "null", "{}", "{\"specversion\":1.0}", "{", "\u{0}", #"{"id":1,"specversion":"1.0"}"#,
        #"{"specversion":"1.0","id":"a","source":"s","type":"t","data":1,"data_base64":"AA=="}"#,
        #"{"specversion":"1.0","id":["a"],"source":"s","type":"t"}"#,
        #"{"specversion":"1.0","id":"a","id":"b","source":"s","type":"t"}"#,
    ])
    func structuredModeRefusesWhatIsNoCloudEvent(body: String) {
        #expect(throws: SourceEvent.Problem.self) {
            try Self.read(["content-type": "application/cloudevents+json"], body)
        }
    }

    @Test func base64ThatIsNoneIsRefused() {
        let body = Self.structured().replacing("\"data\":\(Self.data)", with: "\"data_base64\":\"§\"")
        #expect(throws: SourceEvent.Problem.self) {
            try Self.read(["content-type": "application/cloudevents+json"], body)
        }
    }

    @Test(arguments: ["{}", "[1]", "[{}]", "", "[[]]"])
    func aBatchIsAnArrayOfEvents(body: String) {
        #expect(throws: SourceEvent.Problem.self) {
            try Self.read(["content-type": "application/cloudevents-batch+json"], body)
        }
    }

    @Test func aBatchIsBounded() {
        let body = "[" + Array(repeating: Self.structured(), count: 513).joined(separator: ",") + "]"
        #expect(throws: SourceEvent.Problem.self) {
            try Self.read(["content-type": "application/cloudevents-batch+json"], body)
        }
    }

    @Test(arguments: [
        "application/cloudevents+avro", "application/cloudevents-batch+protobuf", "application/cloudevents",
    ])
    func otherEncodingsOfCloudEventsAre415(type: String) {
        let error = #expect(throws: SourceEvent.Problem.self) {
            try Self.read(["content-type": type], Self.structured())
        }
        #expect(error?.status == 415)
    }

    @Test(arguments: [
        #"{"context":{"eventId":"1147","eventType":"google.firebase.remoteconfig.update","#
            + #""resource":{"service":"firebaseremoteconfig.googleapis.com","name":"projects/demo-project"}},"data":DATA}"#,
        #"{"eventId":1147,"eventType":"providers/firebase.remoteConfig/remoteconfig.update","#
            + #""resource":"projects/demo-project","data":DATA}"#,
    ])
    func readsTheBodyOfAFirstGenerationFunction(template: String) throws {
        let events = try Self.read(
            ["content-type": "application/json"], template.replacing("DATA", with: Self.data))
        #expect(
            events == [
                SourceEvent(
                    form: .cloudFunction, id: "1147", sender: "projects/demo-project", project: "demo-project",
                    version: 7)
            ])
    }

    @Test(arguments: [
        #"{"context":{"eventId":"","eventType":"t"},"data":{}}"#,
        #"{"context":{"eventId":{},"eventType":"t"},"data":{}}"#,
        #"{"context":{"eventId":"1"},"data":{}}"#, #"{"context":{"eventId":"1","eventType":7},"data":null}"#,
    ])
    func aFunctionsContextMustBeWhole(body: String) {
        #expect(throws: SourceEvent.Problem.self) { try Self.read(["content-type": "application/json"], body) }
    }

    private static func push(_ data: String?, attributes: String = "{}") -> String {
        let member = data.map { "\"data\":\"\(Data($0.utf8).base64EncodedString())\"," } ?? ""
        return #"{"message":{\#(member)"messageId":"m-1","attributes":\#(attributes)},"#
            + #""subscription":"projects/p/subscriptions/s"}"#
    }

    @Test func readsAPubSubPushOfEventData() throws {
        let events = try Self.read(["content-type": "application/json"], Self.push(Self.data))
        #expect(events == [SourceEvent(form: .pubSub, id: "m-1", sender: "projects/p/subscriptions/s", version: 7)])
    }

    @Test func readsACloudEventInsideAPubSubPush() throws {
        let attributes =
            #"{"ce-specversion":"1.0","ce-id":"x","ce-type":"\#(Self.type)","ce-source":"\#(Self.source)"}"#
        for body in [Self.push(Self.structured()), Self.push(Self.data, attributes: attributes)] {
            let event = try #require(try Self.read(["content-type": "application/json"], body).first)
            #expect(event.form == .pubSub)
            #expect(event.id == "m-1")
            #expect(event.project == "demo-project")
            #expect(event.version == 7)
        }
    }

    @Test(arguments: [nil, "", "not json", "[]", "7", "\u{FFFF}", #"{"versionNumber":-3}"#, #"{"versionNumber":"x"}"#])
    func aPubSubPushMayCarryAnything(data: String?) throws {
        let event = try #require(try Self.read(["content-type": "application/json"], Self.push(data)).first)
        #expect(event == SourceEvent(form: .pubSub, id: "m-1", sender: "projects/p/subscriptions/s"))
    }

    @Test func aPubSubPushMustBeWhole() {
        for body in [
            #"{"message":{"messageId":"m","data":"§"}}"#, #"{"message":{"messageId":"m","data":{}}}"#,
            #"{"message":{"messageId":[],"data":""}}"#,
        ] {
            #expect(throws: SourceEvent.Problem.self) { try Self.read(["content-type": "application/json"], body) }
        }
    }

    @Test(
        arguments: [
            ("", "application/json", nil, nil), ("", "", nil, nil), ("{}", "application/json", nil, nil),
            (#"{"versionNumber":"12","namespace":"firebase-server"}"#, "application/json", 12, "firebase-server"),
            (
                #"{"CONFIG_STATE":"STALE","project":"x","namespace":"firebase","latestTemplateVersionNumber":"17"}"#,
                "application/json", 17, "firebase"
            ),
            (
                #"{"type":"config.stale","data":{"CONFIG_STATE":"STALE","latestTemplateVersionNumber":"17"}}"#,
                "application/json", 17, nil
            ),
            (#"{"ref":"refs/heads/main","id":"same every time"}"#, "application/json", nil, nil),
            ("payload=x", "application/x-www-form-urlencoded", nil, nil), ("[1,2]", "application/json", nil, nil),
        ] as [(String, String, VersionNumber?, String?)])
    func everythingElseIsPlain(body: String, type: String, version: VersionNumber?, namespace: String?) throws {
        let events = try Self.read(type.isEmpty ? [:] : ["content-type": type], body)
        #expect(events == [SourceEvent(form: .plain, namespace: namespace, version: version)])
    }

    @Test func aBodyThatSaysItIsJSONMustBe() {
        let error = #expect(throws: SourceEvent.Problem.self) {
            try Self.read(["content-type": "application/json"], #"{"versionNumber":}"#)
        }
        #expect(error?.description.contains("line 1") == true)
    }
}
