import StalecastWire
import Testing

@Suite("Evaluation API", .timeLimit(.minutes(5)))
struct EvaluationAPITests {
    private let server = "/v1/projects/demo/namespaces/firebase-server"
    private let template = """
        {"conditions":[{"name":"big","expression":"app.customSignal['size'] > 5"}],
         "parameters":{"model":{"defaultValue":{"value":"s"},"conditionalValues":{"big":{"value":"l"}}}}}
        """

    @Test func aServerTemplateIsServedWithConditionTrees() async throws {
        try await ControlFixture.serving { control async throws in
            let early = try await control.send("GET", server + "/serverRemoteConfig")
            #expect(early.status == 200 && early.headers["etag"] == "etag-123456789012-0")
            #expect(try early.json == ["parameters": [:], "conditions": [], "version": ["versionNumber": "0"]])
            let published = try await control.send(
                "PUT", server + "/remoteConfig", ["If-Match": "*"], body: Array(template.utf8))
            #expect(published.status == 200)
            let reply = try await control.send("GET", server + "/serverRemoteConfig")
            #expect(reply.status == 200 && reply.headers["etag"] == published.headers["etag"])
            let json = try reply.json
            #expect(json["version"]?["versionNumber"] == "1")
            #expect(json["conditions"]?.array?.first?["condition"]?["orCondition"] != nil)
            #expect(json["parameters"]?["model"]?["conditionalValues"]?["big"] == ["value": "l"])
        }
    }

    @Test func onlyTheServerNamespaceHasAServerTemplate() async throws {
        try await ControlFixture.serving { control async throws in
            let path = "/v1/projects/demo/namespaces/firebase/serverRemoteConfig"
            #expect(try await control.send("GET", path).status == 404)
        }
    }

    @Test func anEvaluationSaysWhichConditionsHoldAndWhy() async throws {
        try await ControlFixture.serving { control async throws in
            let path = ControlFixture.prefix
            let early = try await control.send("POST", path + ":evaluate", body: Array(#"{"context":{}}"#.utf8))
            #expect(early.status == 404)
            _ = try await control.send("PUT", path, ["If-Match": "*"], body: Array(template.utf8))
            _ = try await control.send("PUT", path, ["If-Match": "*"], body: Array("{}".utf8))
            let body = #"{"context":{"customSignals":{"size":"6"}},"versionNumber":"1"}"#
            let reply = try await control.send("POST", path + ":evaluate", body: Array(body.utf8))
            #expect(reply.status == 200 && reply.headers["etag"] == "etag-123456789012-1")
            #expect(try reply.json["conditions"]?.array?.first?["matched"] == true)
            #expect(try reply.json["entries"] == ["model": "l"])
        }
    }

    @Test(
        arguments: [
            "", "[]", "{}", #"{"context":1}"#, #"{"context":{"contry":"x"}}"#, #"{"context":{},"versionNumber":0}"#,
        ])
    func whatIsNoContextIsRefused(body: String) async throws {
        try await ControlFixture.serving { control async throws in
            try await control.publish("one")
            let reply = try await control.send("POST", ControlFixture.prefix + ":evaluate", body: Array(body.utf8))
            #expect(reply.status == 400)
        }
    }
}
