import CLinux
import Logging
import StalecastEdge
import StalecastHTTP
import StalecastHub
import StalecastTestSupport
import StalecastWire
import Synchronization
import Testing

/// Edge on a free port over a real hub, in this process.
final class LiveEdge: Sendable {
    static let scope = Scope(project: try! ProjectID("demo"), namespace: .firebase)
    static let second = Scope(project: try! ProjectID("second"), namespace: .firebase)
    static let other = Scope(project: try! ProjectID("demo"), namespace: .firebaseServer)

    let hub: Hub
    let edge: EdgeServer
    /// Templates that fetches are answered from; none at first.
    let served: ServedTemplates
    let port: Int
    /// nil on a plain one.
    let tls: TLSServer?
    private let versions = Mutex<(sequence: CommitSequence, [Scope: VersionNumber])>((0, [:]))

    /// Runs `body` against Edge, sees that its books are right, and stops it.
    static func with(
        engine: Bool, tls: TLSServer? = nil, threads: Int = 2, manyTopics: Int = 0, severalProjects: Bool = false,
        witness: Hub.Listener? = nil, epoch: Epoch = .random(), herdBudget: Int = 0,
        _ change: (inout EdgeSettings) -> Void = { _ in },
        _ body: (LiveEdge) async throws -> Void
    ) async throws {
        var settings = EdgeSettings()
        // On a busy machine a test may be slower than a client is allowed to be.
        (settings.connections.headTimeout, settings.connections.writeStallLimit) = (.seconds(600), .seconds(600))
        change(&settings)
        let live = try await LiveEdge(
            engine: engine, tls: tls, threads: threads, manyTopics: manyTopics, severalProjects: severalProjects,
            witness: witness, epoch: epoch, herdBudget: herdBudget, settings)
        do { try await body(live) } catch {
            try await live.edge.stop()
            throw error
        }
        await live.checkBooks()
        try await live.edge.stop()
        // Who asks one that has stopped must not wait for it.
        #expect(await live.edge.presence().counts.isEmpty)
        _ = await live.edge.streamCounts(of: Self.scope)
    }

    /// Connections change hands while they are counted, so what is wrong must stay wrong.
    private func checkBooks() async {
        var problems: [String] = []
        // The problems are the failure.
        try? await eventually {
            problems = await edge.inconsistencies()
            return problems.isEmpty
        }
        #expect(problems == [])
    }

    /// - Parameter witness: a shard that hears of everything before Edge's own.
    private init(
        engine: Bool, tls: TLSServer?, threads: Int, manyTopics: Int, severalProjects: Bool, witness: Hub.Listener?,
        epoch: Epoch, herdBudget: Int, _ settings: EdgeSettings
    ) async throws {
        let bindings = [
            TopicBinding(name: .pushRC, scopes: severalProjects ? [Self.scope, Self.second] : [Self.scope]),
            TopicBinding(name: try TopicName("pay"), scopes: [Self.scope], keys: [try KeyPattern("pay_*")]),
            TopicBinding(name: try TopicName("server"), scopes: [Self.other]),
            TopicBinding(invalidationsOf: Self.scope),
        ]
        let project = ServedTemplates.Project(
            id: Self.scope.project, number: 123_456_789_012, namespaces: [.firebase, .firebaseServer])
        let extra = try (0..<manyTopics).map { TopicBinding(name: try TopicName("t\($0)"), scopes: [Self.scope]) }
        var projects = ["demo": Self.scope.project, "123456789012": Self.scope.project]
        if severalProjects { projects["second"] = Self.second.project }
        hub = Hub(
            board: TopicBoard(
                epoch: epoch, head: 0, projects: projects, bindings: bindings + extra, changes: []),
            herds: [Self.scope: HerdWindow(budget: herdBudget)])
        if let witness { _ = hub.attach(witness) }
        served = ServedTemplates([project])
        var options = EdgeServer.Options()
        options.port = 0
        options.threads = threads
        options.usesStreamEngine = engine
        options.tls = tls
        self.tls = tls
        var logger = Logger(label: "edge")
        logger.logLevel = .critical
        edge = try EdgeServer(
            options: options, settings: settings, hub: hub, served: served, logger: logger)
        port = try await edge.start()
    }

    /// Announces the next version of a scope; returns its number.
    @discardableResult
    func publish(_ keys: [String]? = ["welcome"], in scope: Scope = LiveEdge.scope) -> VersionNumber {
        versions.withLock { state in
            state.sequence += 1
            let version = state.1[scope, default: 0] + 1
            state.1[scope] = version
            let metadata = VersionMetadata(number: version, updateTime: .now())
            hub.announce(
                TemplateChange(
                    scope: scope, sequence: state.sequence, metadata: metadata, etag: "etag-1-\(version)",
                    changedKeys: keys), at: stalecast_monotonic_ns())
            return version
        }
    }

    func cursor(_ sequence: CommitSequence) -> String { "\(hub.board.epoch).\(sequence)" }

    /// A connection, over TLS where Edge speaks it.
    func client(receiveBuffer: Int32 = 0) -> RawClient {
        RawClient(port: port, receiveBuffer: receiveBuffer, tls: tls == nil ? nil : TLSWire())
    }

    /// A stream that has got its `synced`.
    func stream(
        _ query: String = "topic=PUSH_RC", version: String = "1.1", headers: [String] = [], receiveBuffer: Int32 = 0
    ) throws -> RawClient {
        let client = client(receiveBuffer: receiveBuffer)
        client.get("/v1/events?\(query)", version: version, headers: headers)
        try client.read(untilText: "event: synced")
        try client.read { $0.text.hasSuffix(version == "1.1" ? "\n\n\r\n" : "\n\n") }
        return client
    }

    /// Waits until a fact about Edge's counters holds.
    func wait(file: String = #fileID, line: Int = #line, until fact: (EdgeTally) -> Bool) async throws {
        do { try await eventually(file: file, line: line) { fact(edge.tally) } } catch let error as NotInTime {
            throw NotInTime(description: "\(error): \(edge.tally)")
        }
    }
}
