import StalecastControl
import StalecastWire
import Synchronization
import Testing

/// Paths, queries, bodies and headers as commands, and refusals as answers. What the commands do is tested with the
/// registry and from outside.
@Suite("webhooks", .timeLimit(.minutes(2)))
struct WebhookAPITests {
    private static let base = "/v1/projects/demo/webhooks"

    /// A request and the command it is.
    struct Case: Sendable, CustomTestStringConvertible {
        let method: String
        let target: String
        var headers: [String: String] = [:]
        var body = ""
        let command: WebhookCommand

        var testDescription: String { "\(method) \(target)" }
    }

    private static let page = WebhookCommand.Page(size: 100, token: nil)

    static let cases: [Case] =
        [
            Case(method: "GET", target: base, command: .list(page)),
            Case(method: "GET", target: "\(base)?pageSize=0", command: .list(page)),
            Case(
                method: "GET", target: "\(base)?pageSize=5000&pageToken=a-b",
                command: .list(WebhookCommand.Page(size: 1000, token: "a-b"))),
            Case(
                method: "POST", target: base, body: #"{"url":"https://a.example"}"#,
                command: .create(["url": "https://a.example"])),
            Case(method: "GET", target: "\(base)/wh_a", command: .get("wh_a")),
            Case(
                method: "PATCH", target: "\(base)/wh_a?updateMask=url,%20limits.timeout",
                headers: ["If-Match": "\"wh_a-3\""], body: #"{"url":null}"#,
                command: .update("wh_a", ["url": .null], mask: ["url", "limits.timeout"], etag: "wh_a-3")),
            Case(
                method: "PATCH", target: "\(base)/wh_a", body: #"{"etag":"wh_a-3","paused":true}"#,
                command: .update("wh_a", ["etag": "wh_a-3", "paused": true], mask: nil, etag: "wh_a-3")),
            Case(
                method: "DELETE", target: "\(base)/wh_a", headers: ["If-Match": "*"],
                command: .delete("wh_a", etag: nil)),
            Case(
                method: "DELETE", target: "\(base)/wh_a", headers: ["If-Match": "W/\"x\""],
                command: .delete("wh_a", etag: "x")),
            Case(
                method: "GET", target: "\(base)/wh_a/attempts?pageSize=7",
                command: .attempts("wh_a", WebhookCommand.Page(size: 7, token: nil))),
            Case(method: "GET", target: "\(base)/wh_a/deadLetters", command: .deadLetters("wh_a", page)),
            Case(
                method: "POST", target: "\(base)/wh_a%3Atest", command: .act("wh_a", .test, [:])),
        ]
        + WebhookAction.allCases.map {
            Case(
                method: "POST", target: "\(base)/wh_a:\($0.rawValue)", body: #"{"a":1}"#,
                command: .act("wh_a", $0, ["a": 1]))
        }

    @Test(arguments: cases) func requestsBecomeCommands(of example: Case) async throws {
        let heard = Mutex<[WebhookCommand]>([])
        try await ControlFixture.serving(webhooks: { project, command throws(WebhookRefusal) in
            heard.withLock { $0.append(command) }
            return ["project": .string(project.description), "etag": "wh_a-4"]
        }) { server async throws in
            let reply = try await server.send(
                example.method, example.target, example.headers, body: Array(example.body.utf8))
            #expect(reply.status == 200)
            #expect(reply.headers["etag"] == "\"wh_a-4\"")
            #expect(heard.withLock { $0 } == [example.command])
            let numbered = example.target.replacing("/demo/", with: "/123456789012/")
            let again = try await server.send(
                example.method, numbered, example.headers, body: Array(example.body.utf8))
            #expect(try again.json["project"]?.string == "demo")
        }
    }

    @Test(arguments: [
        (WebhookRefusal.invalid(field: "url", "is missing"), 400, "INVALID_ARGUMENT"),
        (.notFound("there is no webhook"), 404, "NOT_FOUND"), (.changedMeanwhile("changed"), 409, "ABORTED"),
        (.notNow("paused"), 400, "FAILED_PRECONDITION"), (.tooMany("full"), 429, "RESOURCE_EXHAUSTED"),
        (.unavailable("broken"), 503, "UNAVAILABLE"),
    ])
    func refusalsSayWhatIsWrong(refusal: WebhookRefusal, status: Int, word: String) async throws {
        try await ControlFixture.serving(webhooks: { _, _ throws(WebhookRefusal) in throw refusal }) {
            server async throws in
            let reply = try await server.send("POST", Self.base, body: Array("{}".utf8))
            #expect(reply.status == status)
            #expect(try reply.errorStatus == word)
            guard case .invalid = refusal else { return }
            let violations = try reply.json["error"]?["details"]?.array?.first?["fieldViolations"]?.array
            #expect(violations?.first?["field"]?.string == "url")
        }
    }

    @Test(arguments: ["[]", "1", "", "{", #"{"a":1,"a":2}"#])
    func whatIsNoObjectIsRefusedBeforeAnythingIsDone(body: String) async throws {
        try await ControlFixture.serving(webhooks: { _, _ throws(WebhookRefusal) in throw .unavailable("called") }) {
            server async throws in
            #expect(try await server.send("POST", Self.base, body: Array(body.utf8)).status == 400)
        }
    }

    @Test func strangersAndOtherProjectsGetNothing() async throws {
        try await ControlFixture.serving(webhooks: { _, _ throws(WebhookRefusal) in [:] }) {
            server async throws in
            #expect(try await server.send("GET", Self.base, token: nil).status == 401)
            #expect(try await server.send("GET", "/v1/projects/other/webhooks").status == 404)
            #expect(try await server.send("GET", Self.base + "?pageSize=-1").status == 400)
            #expect(try await server.send("POST", Self.base + "/wh_a:explode").status == 405)
        }
    }

    @Test func aDaemonWithoutWebhooksSaysSo() async throws {
        try await ControlFixture.serving { server async throws in
            #expect(try await server.send("GET", Self.base).status == 503)
        }
    }
}
