import StalecastEdge
import StalecastHTTP
import StalecastWire
import Testing

@Suite struct EdgeOpenAPITests {
    private let document = EdgeOperation.document(version: "1.2.3")

    private func filled(_ path: PathTemplate) -> String {
        path.text.replacing("{project}", with: "demo").replacing("{namespace}", with: "firebase")
            .replacing("{fid}", with: "cAbCdEfGhIjKlMnOpQrStU")
    }

    @Test(arguments: [true, false])
    func everyDescribedOperationIsServed(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine) { live in
            for operation in EdgeOperation.all {
                let path = filled(operation.path)
                let client = RawClient(port: live.port)
                client.send(
                    "\(operation.method) \(path)?topic=PUSH_RC&wait=0 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"
                )
                let line = try client.read(untilText: "\r\n").prefix { $0 != "\r\n" }
                #expect(!line.contains(" 404 ") && !line.contains(" 405 "), "\(operation.id): \(line)")
            }
        }
    }

    /// A new kind of path must be named here, and so be in the document.
    private func operationID(_ path: ProjectPath) -> String {
        switch path {
        case .fetch: "fetch"
        case .streamInvalidations: "streamInvalidations"
        case .createInstallation: "createInstallation"
        case .deleteInstallation: "deleteInstallation"
        case .generateToken: "generateToken"
        }
    }

    @Test func firebasesPathsAreTheDocuments() throws {
        let firebase = EdgeOperation.all.filter { !$0.path.names.isEmpty }
        #expect(firebase.count == 5)
        for operation in firebase {
            let path = try #require(ProjectPath(filled(operation.path)))
            #expect(operationID(path) == operation.id)
        }
    }

    @Test func theDocumentIsServedToAnybody() async throws {
        try await LiveEdge.with(engine: true) { live in
            let client = RawClient(port: live.port)
            client.send("GET /openapi.json HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            let answer = try client.readToEnd()
            #expect(answer.contains("Content-Type: application/json"))
            let body = answer.split(separator: "\r\n\r\n", maxSplits: 1)[1]
            #expect(try JSONValue.parse(Array(body.utf8))["paths"]?.object?.keys == document["paths"]?.object?.keys)
        }
    }
}
