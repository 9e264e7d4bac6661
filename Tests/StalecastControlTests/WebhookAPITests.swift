import StalecastControl
import StalecastHTTP
import StalecastWebhooks
import StalecastWire
import Testing

/// Paths, queries, bodies and headers of `webhooks`, on a real registry; what is sent is tested with delivery and from
/// outside.
@Suite("webhooks", .timeLimit(.minutes(5)))
struct WebhookAPITests {
    private static let base = "/v1/projects/demo/webhooks"

    /// Registers a URL; nothing is published, so nothing is sent.
    private func create(_ server: ControlFixture, _ more: String = "") async throws -> (id: String, reply: HTTPReply) {
        let body = #"{"url":"https://a.example/","topics":["PUSH_RC"],"verification":{"method":"none"}\#(more)}"#
        let reply = try await server.send("POST", Self.base, body: Array(body.utf8))
        try #require(reply.status == 200, "\(reply.text)")
        return (try #require(try reply.json["id"]?.string), reply)
    }

    @Test func aWebhookIsCreatedReadChangedAndDeleted() async throws {
        try await ControlFixture.serving { server async throws in
            let (id, created) = try await create(server)
            #expect(
                try created.json["secret"] != nil || created.json["secrets"] != nil || created.text.contains("whsec_"))
            let one = "\(Self.base)/\(id)"
            let read = try await server.send("GET", one)
            #expect(read.status == 200)
            #expect(!read.text.contains("whsec_"))
            let etag = try #require(try read.json["etag"]?.string)
            #expect(read.headers["etag"] == "\"\(etag)\"")
            #expect(try read.json["state"]?["name"]?.string == "active")
            let numbered = one.replacing("/demo/", with: "/123456789012/")
            #expect(try await server.send("GET", numbered).status == 200)
            let target = "\(one)?updateMask=description,%20limits.timeout"
            let patch = Array(#"{"description":"d"}"#.utf8)
            for stale in ["\"\(id)-77\"", "W/\"x\"", "x"] {
                let refused = try await server.send("PATCH", target, ["If-Match": stale], body: patch)
                #expect(refused.status == 409, "\(stale)")
                #expect(try refused.errorStatus == "ABORTED")
            }
            let changed = try await server.send("PATCH", target, ["If-Match": "W/\"\(etag)\""], body: patch)
            #expect(changed.status == 200, "\(changed.text)")
            let inBody = Array(#"{"etag":"\#(etag)","paused":true}"#.utf8)
            #expect(try await server.send("PATCH", one, body: inBody).status == 409)
            #expect(try await server.send("DELETE", one, ["If-Match": "*"]).status == 200)
            #expect(try await server.send("GET", one).status == 404)
        }
    }

    @Test func listsHavePages() async throws {
        try await ControlFixture.serving { server async throws in
            var ids: [String] = []
            for _ in 0..<3 { ids.append(try await create(server).id) }
            let first = try await server.send("GET", "\(Self.base)?pageSize=2").json
            let token = try #require(first["nextPageToken"]?.string)
            let second = try await server.send("GET", "\(Self.base)?page_size=2&pageToken=\(token)").json
            #expect(second["nextPageToken"] == nil)
            let listed = ((first["webhooks"]?.array ?? []) + (second["webhooks"]?.array ?? []))
                .compactMap { $0["id"]?.string }
            #expect(Set(listed) == Set(ids))
            #expect(listed.count == 3)
            for page in ["pageToken=x", "pageSize=-1", "pageSize=a"] {
                #expect(try await server.send("GET", "\(Self.base)?\(page)").status == 400, "\(page)")
            }
            for list in ["attempts", "deadLetters"] {
                let reply = try await server.send("GET", "\(Self.base)/\(ids[0])/\(list)?pageSize=7")
                #expect(try reply.json[list]?.array == [])
                #expect(try await server.send("GET", "\(Self.base)/\(ids[0])/\(list)?pageToken=x").status == 400)
            }
        }
    }

    @Test(arguments: WebhookAction.allCases) func everyVerbIsUnderstood(action: WebhookAction) async throws {
        try await ControlFixture.serving { server async throws in
            let one = "\(Self.base)/\(try await create(server).id)"
            let body = action == .recover ? #"{"since":"2026-08-20T14:05:09Z"}"# : "{}"
            if action == .test { return }  // a request to a server is tested from outside
            let reply = try await server.send("POST", "\(one)%3A\(action.rawValue)", body: Array(body.utf8))
            switch action {
            case .verify, .redeliver:
                #expect(reply.status == 400)
                #expect(try reply.errorStatus == "FAILED_PRECONDITION")
            default: #expect(reply.status == 200, "\(reply.text)")
            }
            if action == .pause { #expect(try reply.json["state"]?["name"]?.string == "paused") }
            if action == .rotateSecret { #expect(reply.text.contains("whsec_")) }
            #expect(try await server.send("GET", "\(one):\(action.rawValue)").status == 405)
            if action == .redrive {
                let absent = try await server.send("POST", "\(one):redrive", body: Array(#"{"id":"abc"}"#.utf8))
                #expect(absent.status == 400 && absent.text.contains("no dead letter"), "\(absent.text)")
            }
            let unknown = "\(Self.base)/wh_a:\(action.rawValue)"
            #expect(try await server.send("POST", unknown, body: Array(body.utf8)).status == 404)
        }
    }

    @Test(arguments: [
        (RegistryProblem.invalid(field: "url", "is missing"), 400, "INVALID_ARGUMENT"),
        (.notFound("wh_a"), 404, "NOT_FOUND"), (.changedMeanwhile, 409, "ABORTED"),
        (.notNow("paused"), 400, "FAILED_PRECONDITION"), (.configured(name: "a"), 400, "FAILED_PRECONDITION"),
        (.tooMany(limit: 3), 429, "RESOURCE_EXHAUSTED"), (.storage(cause: "x"), 503, "UNAVAILABLE"),
    ])
    func problemsSayWhatIsWrong(problem: RegistryProblem, status: Int, word: String) {
        let error = GoogleError(problem)
        #expect(error.code == status)
        #expect(error.status == word)
        #expect(status != 503 || error.fields.contains("Retry-After: 5\r\n"))
        if case .invalid = problem {
            #expect(error.details.first?["fieldViolations"]?.array?.first?["field"]?.string == "url")
        }
    }

    @Test(arguments: ["[]", "1", "", "{", #"{"a":1,"a":2}"#])
    func whatIsNoObjectIsRefused(body: String) async throws {
        try await ControlFixture.serving { server async throws in
            #expect(try await server.send("POST", Self.base, body: Array(body.utf8)).status == 400)
        }
    }

    @Test func strangersAndOtherProjectsGetNothing() async throws {
        try await ControlFixture.serving { server async throws in
            #expect(try await server.send("GET", Self.base, token: nil).status == 401)
            #expect(try await server.send("GET", "/v1/projects/other/webhooks").status == 404)
            #expect(try await server.send("POST", Self.base + "/wh_a:explode").status == 405)
        }
    }
}
