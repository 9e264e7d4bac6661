import StalecastControl
import StalecastHTTP
import StalecastStore
import StalecastWire
import Testing

@Suite("Console", .timeLimit(.minutes(5)))
struct ConsoleTests {
    /// The compressed size of everything a browser loads, in bytes.
    private static let budget = 66 * 1024

    @Test func allOfItIsSmall() {
        let sum = ConsoleFiles.all.values.reduce(0) { $0 + $1.packed.count }
        #expect(sum <= Self.budget, "\(sum) bytes")
        #expect(ConsoleFiles.all.count <= 22, "each is a request")
    }

    @Test func noTextBecomesMarkupAndNothingIsForeign() {
        for file in ConsoleFiles.all.values where file.name.hasSuffix(".js") {
            let text = String(decoding: file.bytes, as: UTF8.self)
            for word in [
                "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "https://",
            ] {
                #expect(!text.contains(word), "\(file.name) has \(word)")
            }
        }
    }

    @Test func pagesHaveTheirPolicyAndAreKeptWhileTheyAreTheSame() async throws {
        try await serving { server async throws in
            for path in ["/console/"] + ConsoleFiles.all.keys.map({ "/console/\($0)" }) {
                let reply = try await server.send("GET", path, token: nil)
                #expect(reply.status == 200, "\(path)")
                #expect(reply.headers["content-security-policy"] == ConsoleFiles.policy)
                #expect(reply.headers["x-content-type-options"] == "nosniff")
                #expect(reply.headers["cache-control"] == "no-cache")
                let etag = try #require(reply.headers["etag"])
                let again = "GET \(path) HTTP/1.1\r\nHost: test\r\nIf-None-Match: \(etag)\r\nConnection: close\r\n\r\n"
                #expect(
                    String(decoding: try await server.raw(Array(again.utf8)), as: UTF8.self).hasPrefix("HTTP/1.1 304 "))
            }
            let moved = try await server.send("GET", "/console", token: nil)
            #expect(moved.status == 308)
            #expect(moved.headers["location"] == "/console/")
            let browser = try await server.send("GET", "/", ["Accept": "text/html,*/*;q=0.8"], token: nil)
            #expect(browser.status == 308 && browser.headers["location"] == "/console/")
            #expect(try await server.send("GET", "/", token: nil).status == 401, "programs are told as ever")
            #expect(try await server.send("GET", "/console/nothing.js", token: nil).status == 404)
        }
    }

    @Test func theCookieStandsForTheCredentialOfTheCode() async throws {
        try await serving { server async throws in
            let cookie = try await Self.signIn(server)
            let seen = try await server.send("GET", "/status", ["Cookie": cookie], token: nil)
            #expect(seen.status == 200)
            #expect(seen.headers["cache-control"] == "no-store")
            let session = try await server.send("GET", "/console/session", ["Cookie": "a=b; \(cookie)"], token: nil)
                .json
            #expect(session["signedIn"]?.bool == true)
            #expect(session["principal"]?["kind"]?.string == "bootstrap")
            #expect(session["scopes"]?.array?.isEmpty == false)
            let stranger = try await server.send("GET", "/console/session", ["Cookie": cookie + "0"], token: nil)
            #expect(try stranger.json == ["signedIn": false])
            #expect(try await server.send("GET", "/status", ["Cookie": cookie + "0"], token: nil).status == 401)
        }
    }

    @Test func aSessionMakesNoCodes() async throws {
        try await serving { server async throws in
            let headers = ["Cookie": try await Self.signIn(server), "Sec-Fetch-Site": "same-origin"]
            #expect(try await server.send("POST", "/console/code", headers, token: nil).status == 403)
        }
    }

    @Test func signingOutEndsTheSession() async throws {
        try await serving { server async throws in
            let headers = ["Cookie": try await Self.signIn(server), "Sec-Fetch-Site": "same-origin"]
            let reply = try await server.send("DELETE", "/console/session", headers, token: nil)
            #expect(reply.headers["set-cookie"]?.contains("Max-Age=0") == true)
            #expect(try await server.send("GET", "/status", headers, token: nil).status == 401)
        }
    }

    @Test(arguments: [
        (["Sec-Fetch-Site": "same-origin"], 200), (["Sec-Fetch-Site": "none"], 200),
        (["Sec-Fetch-Site": "same-site"], 403), (["Sec-Fetch-Site": "cross-site"], 403),
        (["Sec-Fetch-Site": "cross-site", "Origin": "http://test"], 403),
        (["Origin": "http://test"], 200), (["Origin": "https://TEST"], 200), (["Origin": "http://test:81"], 403),
        (["Origin": "http://evil.example"], 403), (["Origin": "null"], 403), ([:], 403),
    ])
    func aPageOfAnotherOriginChangesNothing(headers: [String: String], status: Int) async throws {
        try await serving { server async throws in
            let cookie = try await Self.signIn(server)
            let body = Array("{}".utf8)
            let more = headers.merging(["Cookie": cookie, "If-Match": "*"]) { first, _ in first }
            let reply = try await server.send("PUT", ControlFixture.prefix, more, body: body, token: nil)
            #expect(reply.status == status)
            #expect(server.store.head() == (status == 200 ? 1 : 0))
            // What has a token of its own is no page's.
            let program = headers.merging(["If-Match": "*"]) { first, _ in first }
            #expect(try await server.send("PUT", ControlFixture.prefix, program, body: body).status == 200)
        }
    }

    @Test func anotherHostIsNotOurs() async throws {
        try await ControlFixture.serving { server async throws in
            // The fixture's host is `test`, which is nowhere configured here.
            #expect(try await server.send("GET", "/console/", token: nil).status == 421)
            #expect(try await server.send("POST", "/console/session", token: nil).status == 421)
            let cookie = "stalecast-\(server.store.epoch.description.prefix(8))=0"
            #expect(try await server.send("GET", "/status", ["Cookie": cookie], token: nil).status == 421)
            #expect(try await server.send("GET", "/status").status == 200)
        }
    }

    @Test func guessingIsSlow() async throws {
        try await serving { server async throws in
            for _ in 0..<ConsoleSessions.wrongPerMinute {
                let body = Array(#"{"code":"00"}"#.utf8)
                #expect(try await server.send("POST", "/console/session", body: body, token: nil).status == 401)
            }
            let right = Array(#"{"token":"\#(ControlFixture.secret)"}"#.utf8)
            let reply = try await server.send("POST", "/console/session", body: right, token: nil)
            #expect(reply.status == 429)
            #expect(reply.headers["retry-after"] == "60")
        }
    }

    // MARK: Parts

    private func serving(_ body: (ControlFixture) async throws -> Void) async throws {
        try await ControlFixture.serving({ $0.settings.hosts = ["test"] }, body)
    }

    /// - Returns: the `Cookie` field.
    private static func signIn(_ server: ControlFixture) async throws -> String {
        let made = try await server.send("POST", "/console/code").json
        let code = try #require(made["code"]?.string)
        #expect(made["path"]?.string == "/console/#code=\(code)")
        let body = Array(#"{"code":"\#(code)"}"#.utf8)
        let reply = try await server.send("POST", "/console/session", body: body, token: nil)
        #expect(reply.status == 200)
        let field = try #require(reply.headers["set-cookie"])
        #expect(field.hasSuffix("; HttpOnly; SameSite=Strict; Path=/; Max-Age=43200"))
        #expect(try await server.send("POST", "/console/session", body: body, token: nil).status == 401)
        return String(field.prefix { $0 != ";" })
    }
}
