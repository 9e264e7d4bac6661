import StalecastOutbound
import StalecastWebhooks
import StalecastWire
import Testing

@Suite struct CloudEventFormatTests {
    private static let type = "google.firebase.remoteconfig.remoteConfig.v1.updated"
    /// Firebase's Python functions fail when one of these is missing.
    private static let required = [
        "versionNumber", "updateTime", "updateUser", "description", "updateOrigin", "updateType",
    ]

    @Test(arguments: [UpdateType.incremental, .forced, .rollback])
    func theBinaryFormHasFirebasesAttributesAndData(type: UpdateType) async throws {
        let fixture = try FormatterFixture()
        let webhook = try await fixture.register(["url": "http://127.0.0.1:9/", "format": "cloudevents-binary"])
        let change = FormatterFixture.change(
            type: type, rollbackSource: type == .rollback ? 3 : nil, description: "")
        let (request, id) = try fixture.request(FormatterFixture.stale(change), webhook)
        #expect(request.header("ce-specversion") == "1.0" && request.header("ce-id") == id)
        #expect(request.header("ce-type") == Self.type)
        #expect(request.header("ce-source") == "//firebaseremoteconfig.googleapis.com/projects/demo")
        #expect(request.header("ce-sinceversion") == "4" && request.header("ce-coalesced") == "2")
        #expect(request.header("content-type") == "application/json")
        try expectFirebaseData(try request.json, type)
        try expectFraction(try #require(request.header("ce-time")))
    }

    @Test func theStructuredFormIsTheSameEventInOneDocument() async throws {
        let fixture = try FormatterFixture()
        let webhook = try await fixture.register(["url": "http://127.0.0.1:9/", "format": "cloudevents-structured"])
        let (request, id) = try fixture.request(FormatterFixture.stale(), webhook)
        #expect(request.header("content-type") == "application/cloudevents+json")
        let json = try request.json
        #expect(json["id"]?.string == id && json["type"]?.string == Self.type && json["specversion"]?.string == "1.0")
        #expect(json["datacontenttype"]?.string == "application/json")
        try expectFirebaseData(try #require(json["data"]), .incremental)
        try expectFraction(try #require(json["time"]?.string))
    }

    @Test func aTestIsAnEventAHandlerUnderstands() async throws {
        let fixture = try FormatterFixture()
        let webhook = try await fixture.register(["url": "http://127.0.0.1:9/", "format": "cloudevents-binary"])
        for current in [nil, FormatterFixture.change()] {
            let test = Delivery.Content.test(
                nonce: Epoch.random().description, topic: .pushRC, project: .demo, current: current)
            let (request, _) = try fixture.request(test, webhook)
            #expect(request.header("ce-type") == Self.type && request.header("ce-test") == "true")
            for name in Self.required { #expect(try request.json[name] != nil, "\(name)") }
        }
    }

    @Test func attributesThatAreNoPlainTextAreEscaped() async throws {
        let fixture = try FormatterFixture()
        let topic = try TopicName("a%20b")
        let webhook = try await fixture.register(["url": "http://127.0.0.1:9/", "format": "cloudevents-binary"])
        let content = Delivery.StaleContent(
            topic: topic, change: FormatterFixture.change(), since: nil, changedKeys: nil)
        #expect(try fixture.request(.stale(content), webhook).0.header("ce-topic") == "a%2520b")
    }

    @Test func aReceiverThatWasAskedHearsTheOriginWithEveryRequest() async throws {
        let fixture = try FormatterFixture()
        let webhook = try await fixture.register([
            "url": "http://127.0.0.1:9/", "format": "cloudevents-binary", "verification": ["method": "cloudevents"],
        ])
        let (request, _) = try fixture.request(FormatterFixture.stale(), webhook)
        #expect(request.header("webhook-request-origin") == "stale.example")
    }

    private func expectFirebaseData(_ data: JSONValue, _ type: UpdateType) throws {
        for name in Self.required { #expect(data[name] != nil, "\(name)") }
        for name in ["name", "email", "imageUrl"] { #expect(data["updateUser"]?[name]?.string != nil, "\(name)") }
        #expect(data["versionNumber"]?.int64 == 7)
        #expect(data["updateType"]?.string == type.rawValue)
        #expect((data["rollbackSource"] != nil) == (type == .rollback))
        try expectFraction(try #require(data["updateTime"]?.string))
    }

    /// One to six digits after the point and `Z`, as strptime's `%f%z` wants them.
    private func expectFraction(_ time: String) throws {
        #expect(time.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,6}Z/) != nil, "\(time)")
    }
}
