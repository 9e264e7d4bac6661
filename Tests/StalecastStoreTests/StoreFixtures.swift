import Foundation
import StalecastStore
import StalecastTemplate
import StalecastTestSupport
import StalecastWire
import Synchronization

extension TemporaryDirectory {
    var database: String { file("stalecast.sqlite") }

    /// Copies the named files that exist; a store may be writing them.
    func copy(_ names: [String], to other: TemporaryDirectory) throws {
        for name in names where FileManager.default.fileExists(atPath: file(name)) {
            try other.write(bytes(name), to: name)
        }
    }
}

/// A clock that stands still until it is moved.
final class TestClock: Sendable {
    private let time = Mutex(Timestamp(microseconds: 1_795_000_000_000_000))

    var now: Timestamp { time.withLock { $0 } }

    func set(_ now: Timestamp) { time.withLock { $0 = now } }

    func advance(days: Int64) {
        time.withLock { $0 = Timestamp(microseconds: $0.microseconds + days * 86_400_000_000) }
    }
}

/// Lines that a store logged, in order.
final class LogLines: Sendable {
    private let notices = Mutex<[TemplateStore.LogLine]>([])

    var all: [TemplateStore.LogLine] { notices.withLock { $0 } }
    func contains(_ message: String) -> Bool { all.contains { $0.message.contains(message) } }
    @Sendable func add(_ notice: TemplateStore.LogLine) { notices.withLock { $0.append(notice) } }
}

extension StoreConfiguration {
    /// Configuration for a test: no minimum of free space, a clock that stands still.
    static func make(_ directory: TemporaryDirectory, clock: TestClock = TestClock()) -> StoreConfiguration {
        var configuration = StoreConfiguration(directory: directory.path)
        configuration.minFreeBytes = 0
        configuration.now = { clock.now }
        return configuration
    }
}

extension TemplateStore {
    static func make(
        _ directory: TemporaryDirectory, clock: TestClock = TestClock(), log: LogLines = LogLines()
    ) throws -> TemplateStore {
        try open(.make(directory, clock: clock), log: log.add)
    }

    /// Publishes `greeting` = `value` without a condition on the current version.
    @discardableResult
    func put(_ value: String, in scope: Scope = .demo) async throws -> StoredVersion {
        try await publish(Publish(scope: scope, template: .greeting(value), precondition: .any))
    }

    /// Publishes `values` one after the other.
    func put(_ values: ClosedRange<Int>, in scope: Scope = .demo) async throws {
        for value in values { try await put("\(value)", in: scope) }
    }

    func numbers(of scope: Scope = .demo) async throws -> [VersionNumber] {
        try await versions(of: scope, VersionQuery(pageSize: 300)).versions.map(\.number)
    }
}

extension Scope {
    static let demo = Scope(project: StoreConfiguration.Project.demo.id, namespace: .firebase)
    static let demoServer = Scope(project: StoreConfiguration.Project.demo.id, namespace: .firebaseServer)
}

extension Template {
    /// One parameter, `greeting`.
    static func greeting(_ value: String) throws -> Template {
        try Template(
            validating: ["parameters": ["greeting": ["defaultValue": ["value": .string(value)]]]], kind: .client)
    }

    var greeting: String? { json["parameters"]?["greeting"]?["defaultValue"]?["value"]?.string }
}

/// The error `body` throws; nil when it throws none.
func storeError<Value>(_ body: () async throws -> Value) async -> StoreError? {
    do {
        _ = try await body()
        return nil
    } catch {
        return error as? StoreError
    }
}

extension StoreError {
    var isOutcomeUnknown: Bool {
        switch self {
        case .outcomeUnknown, .outcomePending: true
        default: false
        }
    }
}
