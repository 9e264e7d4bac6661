import StalecastEdge
import StalecastHTTP
import StalecastTestServers
import StalecastWire
import Testing

@Suite struct EdgeOpenAPITests {
    private let document = EdgeOperations.document(version: "1.2.3")

    private func filled(_ path: PathTemplate) -> String {
        path.text.replacing("{project}", with: "demo").replacing("{namespace}", with: "firebase")
            .replacing("{fid}", with: "cAbCdEfGhIjKlMnOpQrStU")
    }

    @Test(arguments: [true, false])
    func everyDescribedOperationIsServed(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine) { live in
            for operation in EdgeOperations.table.operations.map(\.document) {
                let path = filled(operation.path)
                let client = RawClient(port: live.port)
                client.send(
                    "\(operation.method) \(path)?topic=PUSH_RC&wait=0 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"
                )
                let line = try client.read(untilText: "\r\n").prefix { $0 != "\r\n" }
                // There is no flag, so that what is served says 404 too.
                let isFound = !line.contains(" 404 ") || operation.path.names.contains("key")
                #expect(isFound && !line.contains(" 405 "), "\(operation.id): \(line)")
            }
        }
    }

    @Test(arguments: [
        ("/v1/projects/p/namespaces/n:fetch", "fetch", "n"), ("/v1/projects/p/namespaces/n%3Afetch", "fetch", "n"),
        ("/v1/projects/p/namespaces/n:streamFetchInvalidations", "streamInvalidations", "n"),
        ("/v1/projects/p/installations", "createInstallation", ""),
        ("/v1/projects/p/installations/f/authTokens:generate", "generateToken", ""),
    ])
    func pathsAreReadWithTheirVerbs(path: String, id: String, namespace: String) throws {
        guard case .operation(let operation, let names) = try EdgeOperations.table.find("POST", path[...]) else {
            Issue.record("\(path) is no operation")
            return
        }
        #expect(operation.document.id == id)
        #expect(names["project"] == "p" && names["namespace"] == namespace)
    }

    @Test(arguments: ["p/namespaces/n", "/namespaces/n:fetch", "%/installations", "p/namespaces/n:fetch/x", "p"])
    func otherPathsAreNone(tail: String) {
        #expect(throws: GoogleError.self) { try EdgeOperations.table.find("POST", "/v1/projects/\(tail)") }
    }

    @Test(arguments: ["", "a b", "PUSH_RC", "a.b~c%20-_", "ü", String(repeating: "x", count: 256)])
    func theDocumentTakesTheTopicsThatTheDaemonTakes(name: String) throws {
        let schema = document["components"]?["schemas"]?["TicketRequest"]?["properties"]?["topics"]?["items"]
        let pattern = try Regex(try #require(schema?["pattern"]?.string))
        #expect((try pattern.wholeMatch(in: name) != nil) == ((try? TopicName(name)) != nil))
    }

    @Test func theDocumentIsServedToAnybody() async throws {
        try await LiveEdge.with(engine: true) { live in
            let client = RawClient(port: live.port)
            client.send("GET /openapi.json HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            let answer = try client.readToEnd()
            #expect(answer.contains("Content-Type: application/json"))
            let body = try answer.split(separator: "\r\n\r\n", maxSplits: 1)[required: 1]
            #expect(try JSONValue.parse(Array(body.utf8))["paths"]?.object?.keys == document["paths"]?.object?.keys)
        }
    }
}
