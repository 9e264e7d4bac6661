import CLinux
import Logging
import StalecastEdge
import StalecastHub
import StalecastWire

/// Edge with one engine thread on a free port over a real hub, without store and without disk.
///
/// Not `Sendable`: one task announces and waits.
final class BenchEdge {
    private static let scope = Scope(project: known { try ProjectID("demo") }, namespace: .firebase)

    let port: Int
    let target: String
    private let hub: Hub
    private let edge: EdgeServer
    private var version: VersionNumber = 0

    /// - Parameter topics: how many topics a stream names; all changes reach the first only.
    init(topics: Int) async throws {
        let names = (0..<topics).map { number in known { try TopicName("bench-\(number)") } }
        let silent = Scope(project: Self.scope.project, namespace: .firebaseServer)
        let bindings = names.enumerated().map { TopicBinding(name: $1, scopes: [$0 == 0 ? Self.scope : silent]) }
        hub = Hub(board: TopicBoard(epoch: .random(), head: 0, bindings: bindings, changes: []))
        let query = names.map { "topic=\($0)" } + ["project=\(Self.scope.project)"]
        target = "/v1/events?" + query.joined(separator: "&")
        var options = EdgeServer.Options()
        options.port = 0
        var logger = Logger(label: "benchmarks")
        logger.logLevel = .critical
        edge = try EdgeServer(options: options, settings: EdgeSettings(), hub: hub, logger: logger)
        port = try await edge.start()
    }

    func announce() {
        version = version.advanced(by: 1)
        let change = TemplateChange(
            scope: Self.scope, sequence: CommitSequence(version.rawValue),
            metadata: VersionMetadata(number: version, updateTime: .now()),
            etag: "etag-1-\(version)", changedKeys: ["welcome_text"])
        hub.announce(change, at: stalecast_monotonic_ns())
    }

    /// Waits until Edge's counters are as wanted. Only the engine's thread is measured, so waiting costs nothing.
    func wait(until isReached: (EdgeTally) -> Bool) async {
        while !isReached(edge.tally) {
            // Cancelled means that the rest is not wanted.
            do { try await Task.sleep(for: .milliseconds(1)) } catch { return }
        }
    }

    func stop() async throws { try await edge.stop() }
}

/// A name that is spelled in this file: if it is not valid the benchmark itself is wrong.
private func known<Name>(_ make: () throws -> Name) -> Name {
    do { return try make() } catch { preconditionFailure("a name of the benchmark is not valid: \(error)") }
}
