import StalecastAccess
import StalecastEdge
import StalecastHTTP
import StalecastWire
import Testing

/// Edge where grants decide, over tables that remember four principals. A session is what `X-Session` says.
@Suite struct PrincipalTests {
    private let authorizer = Authorizer(remembering: 4)

    private func with(
        engine: Bool, anonymous: [Grant] = [], _ change: (inout EdgeSettings) -> Void = { _ in },
        _ body: (LiveEdge) async throws -> Void
    ) async throws {
        authorizer.configure(keys: [], plain: [], anonymous: anonymous)
        authorizer.hook.configure(names: ["x-session"]) { question, done in
            let subject = question.headers[0].value
            let body = #"{"subject":"\#(subject)","grants":[{"actions":["watch"]}],"cacheFor":60}"#
            done(CallerHook.Reply(status: 200, body: Array(body.utf8)))
        }
        let settings: (inout EdgeSettings) -> Void = {
            $0.access = EdgeAccess(.enforce, authorizer)
            change(&$0)
        }
        try await LiveEdge.with(engine: engine, settings) { live in
            authorizer.observe { live.edge.accessChanged() }
            try await body(live)
        }
    }

    /// Other sessions than those of the streams come, then a key is made.
    private func otherSessionsComeAndAccessChanges(_ live: LiveEdge) throws {
        let others = live.client()
        defer { others.close() }
        for number in 0..<10 {
            others.forget()
            others.get("/v1/state?topic=PUSH_RC", headers: ["X-Session: other\(number)"])
            try others.read(untilText: "latestTemplateVersionNumber")
        }
        authorizer.configure(keys: [], plain: [], anonymous: [])
    }

    @Test(arguments: [true, false])
    func aStreamKeepsItsPrincipalHoweverManyOthersCome(engine: Bool) async throws {
        try await with(engine: engine) { live in
            let stream = try live.stream(headers: ["X-Session: ann"])
            let poll = live.client()
            poll.get("/v1/poll?topic=PUSH_RC&cursor=\(live.cursor(0))&wait=30s", headers: ["X-Session: ann"])
            try await live.wait { $0.polls == 1 && $0.streams == 1 }
            try otherSessionsComeAndAccessChanges(live)
            live.publish()
            try stream.read(untilText: #""latestTemplateVersionNumber":"1""#)
            #expect(!stream.text.contains("revoked"))
            try poll.read(untilText: #""latestTemplateVersionNumber":"1""#)
            stream.close()
            poll.close()
            try await live.wait { $0.streams == 0 }
        }
    }

    @Test func strangersOfOneAddressLeaveTicketsForOthers() async throws {
        let loopback = [try CIDR("127.0.0.0/8")]
        let change: (inout EdgeSettings) -> Void = {
            $0.proxies.networks = loopback
        }
        try await with(engine: false, anonymous: [Grant(actions: [.watch])], change) { live in
            let client = live.client()
            defer { client.close() }
            func ask(_ address: String) throws -> String {
                let body = #"{"topics":["PUSH_RC"]}"#
                client.forget()
                client.send(
                    "POST /v1/tickets HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: \(address)\r\n"
                        + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)")
                try client.read { $0.text.hasSuffix("}\n") }
                return String(client.text.split(separator: " ")[1])
            }
            for _ in 0..<TicketBook.maxOfAddress { try #require(try ask("192.0.2.1") == "200") }
            #expect(try ask("192.0.2.1") == "429")
            #expect(try ask("192.0.2.2") == "200")
        }
    }
}
