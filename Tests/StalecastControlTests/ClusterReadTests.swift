import StalecastControl
import StalecastHTTP
import StalecastWire
import Testing

/// Reads at a node of a cluster that cannot always ask its log.
@Suite(.timeLimit(.minutes(5))) struct ClusterReadTests {
    private static let path = ControlFixture.prefix
    private static let mark = "x-stalecast-unverified"
    private static let newest: [(method: String, target: String, body: String)] = [
        ("GET", path, ""), ("GET", "\(path):listVersions", ""), ("GET", "\(path):downloadDefaults?format=JSON", ""),
        ("POST", "\(path):evaluate", #"{"context":{}}"#),
        ("GET", "/v1/projects/demo/namespaces/firebase-server/serverRemoteConfig", ""),
    ]

    /// - Parameter age: of the copy; nil where its age does not matter.
    private func serving(
        _ age: ClusterService.CopyAge?, changesAt: (@Sendable () -> [String])? = nil,
        _ body: (ControlFixture) async throws -> Void
    ) async throws {
        let service = ClusterService(
            status: { [:] }, copyAge: { age }, changesAt: changesAt,
            newEpoch: { [:] }, upgrade: { [:] }, outcome: { _ in .unknown })
        try await ControlFixture.serving(cluster: service) { server in
            if changesAt == nil { try await server.publish("hi") }
            try await body(server)
        }
    }

    private func send(
        _ read: (method: String, target: String, body: String), to server: ControlFixture
    ) async throws -> HTTPReply {
        try await server.send(read.method, read.target, body: Array(read.body.utf8))
    }

    @Test func whatTheLogDidNotConfirmIsMarked() async throws {
        try await serving(.init(unverified: .seconds(61), isTooLong: false)) { server in
            for read in Self.newest {
                let reply = try await send(read, to: server)
                #expect(reply.status == 200 && reply.headers[Self.mark] == "62", "\(read)")
            }
        }
    }

    @Test func whatIsTooOldIsRefused() async throws {
        try await serving(.init(unverified: .seconds(61), isTooLong: true)) { server in
            for read in Self.newest {
                let reply = try await send(read, to: server)
                #expect(reply.status == 503 && reply.headers["retry-after"] == "1", "\(read)")
                #expect(try reply.message.contains("versionNumber=N"))
            }
        }
    }

    @Test func aVersionThatIsNamedIsTheSameForEver() async throws {
        try await serving(.init(unverified: .seconds(61), isTooLong: true)) { server in
            for target in ["\(Self.path)?versionNumber=1", "\(Self.path):downloadDefaults?format=XML&versionNumber=1"] {
                let reply = try await server.send("GET", target)
                #expect(reply.status == 200 && reply.headers[Self.mark] == nil, "\(target)")
            }
        }
    }

    @Test func anEdgeSaysWhereChangesAreTaken() async throws {
        let addresses = ["http://10.0.0.1:8081", "http://10.0.0.2:8081"]
        try await serving(nil, changesAt: { addresses }) { server in
            let reply = try await server.send(
                "PUT", Self.path, ["If-Match": "*"], body: Array("{}".utf8))
            #expect(reply.status == 421 && reply.headers["retry-after"] == nil)
            let message = try reply.message
            for address in addresses { #expect(message.contains(address)) }
            // Nothing is published here, so there is nothing to evaluate: 404.
            for read in Self.newest { #expect(try await send(read, to: server).status != 421, "\(read)") }
        }
        try await serving(nil, changesAt: { [] }) { server in
            let reply = try await server.send("GET", "/v1/projects/demo/webhooks")
            #expect(reply.status == 421)
            #expect(try reply.message.contains("none is known here"))
        }
    }

    /// A new operation has to be thought about: does it change something that others have too?
    @Test func everythingElseAtAnEdgeIsARead() {
        let answered = ControlOperations.table.operations.filter(\.isAnsweredByEdges).map(\.document)
        let other = Set(answered.filter { $0.method != "GET" }.map(\.id))
        #expect(
            other == [
                "evaluateTemplate", "evaluateTemplateInNamespace", "backUp", "makeConsoleCode", "beginSignIn",
                "openSession",
                "closeSession",
            ])
        let refusedReads = ControlOperations.table.operations.filter { !$0.isAnsweredByEdges }.map(\.document)
            .filter { $0.method == "GET" }
        #expect(Set(refusedReads.map(\.tag)) == ["Webhooks", "Proposals"])
    }

    @Test(arguments: [true, false])
    func whatTheLogConfirmedDuringTheReadIsNotMarked(hasAge: Bool) async throws {
        try await serving(hasAge ? .init(unverified: .zero, isTooLong: false) : nil) { server in
            for read in Self.newest {
                let reply = try await send(read, to: server)
                #expect(reply.status == 200 && reply.headers[Self.mark] == nil, "\(read)")
            }
        }
    }
}
