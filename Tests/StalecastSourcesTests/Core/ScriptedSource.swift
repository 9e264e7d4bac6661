import Foundation
import StalecastSources
import StalecastStore
import StalecastTemplate
import StalecastWire
import Synchronization

/// A source that shows what a test tells it to.
final class ScriptedSource: TemplateSource {
    private struct State {
        var poll: OriginPoll = .unchanged
        var polls = 0
        var forgotten = 0
        var gate: (@Sendable () async -> Void)?
    }

    private let state = Mutex(State())

    var kind: SourceKind { .http }
    var place: String { "http://origin.test/config" }
    var polls: Int { state.withLock(\.polls) }
    var forgotten: Int { state.withLock(\.forgotten) }

    /// Sets what every look shows from now on.
    func show(_ poll: OriginPoll) { state.withLock { $0.poll = poll } }
    func show(_ value: String, version: VersionNumber? = nil) { show(.seen(.greeting(value, version: version))) }
    /// Every look waits for this first.
    func hold(_ gate: (@Sendable () async -> Void)?) { state.withLock { $0.gate = gate } }

    func poll() async -> OriginPoll {
        let gate = state.withLock { state in
            state.polls += 1
            return state.gate
        }
        await gate?()
        return state.withLock(\.poll)
    }

    func forget() { state.withLock { $0.forgotten += 1 } }
}

extension OriginPoll.Sight {
    static func greeting(_ value: String, version: VersionNumber? = nil) -> OriginPoll.Sight {
        let template = Template(parameters: ["greeting": TemplateParameter(defaultValue: .value(value))])
        return OriginPoll.Sight(content: OriginContent(template: template, version: version))
    }
}

/// A store of its own for one test, and what was adopted into it.
final class FreshStore: Sendable {
    let store: TemplateStore
    private let folder: String
    private let committed: Committed

    private final class Committed: Sendable {
        let versions = Mutex<[StoredVersion]>([])
    }

    init() throws {
        folder = NSTemporaryDirectory() + "stalecast-sources-\(UUID().uuidString)"
        let projects = [StoreConfiguration.Project(id: .demo, number: 123_456_789_012)]
        store = try TemplateStore.open(StoreConfiguration(directory: folder, projects: projects))
        let committed = Committed()
        self.committed = committed
        store.setCommitHandler { version in committed.versions.withLock { $0.append(version) } }
    }

    deinit {
        store.close()
        try? FileManager.default.removeItem(atPath: folder)  // a leftover does no harm
    }

    var adopted: [StoredVersion] { committed.versions.withLock { $0 } }
}

/// Reports of a watcher, in order.
final class Reports: Sendable {
    private let reports = Mutex<[SourceWatcher.Report]>([])
    var all: [SourceWatcher.Report] { reports.withLock { $0 } }
    @Sendable func add(_ report: SourceWatcher.Report) { reports.withLock { $0.append(report) } }
}

/// Runs a watcher while `body` runs.
func watching<Value>(_ watcher: SourceWatcher, _ body: () async throws -> Value) async rethrows -> Value {
    let task = Task { await watcher.run() }
    defer { task.cancel() }
    let value = try await body()
    task.cancel()
    await task.value
    return value
}
