import StalecastSources
import StalecastTemplate
import StalecastWire
import Synchronization

/// A source that shows what a test tells it to, and a sink that keeps what it is given.
final class ScriptedSource: TemplateSource {
    private struct State {
        var look: OriginLook = .unchanged
        var looks = 0
        var forgotten = 0
        var gate: (@Sendable () async -> Void)?
    }

    private let state = Mutex(State())

    var kind: SourceKind { .http }
    var place: String { "http://origin.test/config" }
    var looks: Int { state.withLock(\.looks) }
    var forgotten: Int { state.withLock(\.forgotten) }

    /// What every look shows from now on.
    func show(_ look: OriginLook) { state.withLock { $0.look = look } }
    func show(_ value: String, version: VersionNumber? = nil) { show(.seen(.greeting(value, version: version))) }
    /// Every look waits for this first.
    func hold(_ gate: (@Sendable () async -> Void)?) { state.withLock { $0.gate = gate } }

    func look() async -> OriginLook {
        let gate = state.withLock { state in
            state.looks += 1
            return state.gate
        }
        await gate?()
        return state.withLock(\.look)
    }

    func forget() { state.withLock { $0.forgotten += 1 } }
}

extension OriginSight {
    static func greeting(_ value: String, version: VersionNumber? = nil) -> OriginSight {
        let template = Template(parameters: ["greeting": TemplateParameter(defaultValue: .value(value))])
        return OriginSight(content: OriginContent(template: template, version: version))
    }
}

/// The store's part: takes what is other than the last one.
final class ScriptedSink: Sendable {
    private struct State {
        var adopted: [Observation] = []
        var failure: OriginProblem?
    }

    private let state = Mutex(State())

    var adopted: [Observation] { state.withLock(\.adopted) }
    func fail(with problem: OriginProblem?) { state.withLock { $0.failure = problem } }

    var sink: SourceSink {
        SourceSink(
            judge: { _, sight in self.adopted.last?.sight.content == sight.content ? .isCurrent : .isNew },
            adopt: { observation in
                self.state.withLock { state in
                    if let failure = state.failure { return .failed(failure) }
                    state.adopted.append(observation)
                    return .adopted(VersionNumber(state.adopted.count))
                }
            })
    }
}

/// What a watcher reported, in order.
final class Reports: Sendable {
    private let reports = Mutex<[SourceReport]>([])
    var all: [SourceReport] { reports.withLock { $0 } }
    @Sendable func add(_ report: SourceReport) { reports.withLock { $0.append(report) } }
}

/// Waits until the condition holds; false after 10 s.
func eventually(_ condition: @Sendable () -> Bool) async -> Bool {
    let deadline = ContinuousClock.now + .seconds(60)
    while !condition() {
        if ContinuousClock.now > deadline { return false }
        try? await Task.sleep(for: .milliseconds(2))  // The deadline ends it.
    }
    return true
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
