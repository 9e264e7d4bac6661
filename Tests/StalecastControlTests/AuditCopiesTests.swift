import Foundation
import StalecastControl
import StalecastStore
import StalecastTemplate
import StalecastTestSupport
import StalecastWire
import Synchronization
import Testing

/// Lines of the audit log and their entries in the store: no version is without both, and none has two lines.
@Suite struct AuditCopiesTests {
    /// Disk with room for a number of lines.
    private final class Disk: Sendable {
        private let room = Mutex(Int.max)

        func leave(_ lines: Int) { room.withLock { $0 = lines } }

        func append(_ bytes: UnsafeRawBufferPointer, _ file: Int32) -> Int {
            let hasRoom = room.withLock { room in
                guard room > 0 else { return false }
                room -= 1
                return true
            }
            return hasRoom ? DescriptorBytes.write(bytes, to: file) : 0
        }
    }

    private let directory: TemporaryDirectory
    private let disk = Disk()
    private let store: TemplateStore
    private let audit: AuditLog
    private let copies: AuditCopies
    private let scope = Scope(project: .demo, namespace: .firebase)

    init() throws {
        directory = try TemporaryDirectory()
        var configuration = StoreConfiguration(directory: directory.path)
        configuration.minFreeBytes = 0
        store = try TemplateStore.open(configuration) { _ in }
        audit = try AuditLog(directory: directory.path, append: disk.append)
        copies = AuditCopies(audit, store)
    }

    private func publish(_ value: Int) async throws(StoreError) -> StoredVersion {
        let text = #"{"parameters":{"greeting":{"defaultValue":{"value":"\#(value)"}}}}"#
        guard let json = try? JSONValue.parse(Array(text.utf8)), let template = try? Template(stored: json) else {
            throw .unavailable("the template is none")
        }
        return try await store.publish(Publish(scope: scope, template: template, precondition: .any))
    }

    private func record(_ value: Int) async throws {
        _ = try await copies.recording("publishTemplate", ["actor": "ada"]) { () throws(StoreError) in
            try await publish(value)
        }
    }

    private func move() throws {
        try FileManager.default.moveItem(atPath: directory.file("audit.jsonl"), toPath: directory.file("elsewhere"))
    }

    /// Versions that lines name, and whether they came later.
    private func lines(_ name: String = "audit.jsonl") throws -> [String] {
        try directory.bytes(name).split(separator: 0x0A).compactMap { line in
            let line = try JSONValue.parse(Array(line))
            let mark = line["recovered"]?.bool == true ? " recovered" : ""
            return line["version"]?.string.map { $0 + mark }
        }
    }

    private func entries() throws -> [CommitSequence] { try store.auditEntries().map(\.sequence) }

    @Test func aVersionHasAnEntryAndALine() async throws {
        try await record(1)
        #expect(try entries() == [1])
        #expect(try lines() == ["1"])
        #expect(try copies.completeLog().written == 0)
        #expect(try lines() == ["1"])
        #expect(try entries().isEmpty)
    }

    @Test func linesThatWereMovedAwayAreNotWrittenAgain() async throws {
        for value in 1...5 { try await record(value) }
        try move()
        #expect(try audit.reopen())
        copies.settle()
        try await eventually { try entries().isEmpty }
        try await record(6)
        #expect(try copies.completeLog().written == 0)
        #expect(try lines("elsewhere") == ["1", "2", "3", "4", "5"])
        #expect(try lines() == ["6"])
    }

    @Test func anEntryWithoutItsLineOutlivesAMove() async throws {
        try await record(1)
        let moved = Mutex(false)
        _ = try await copies.recording("publishTemplate", [:]) { () throws(StoreError) in
            let version = try await publish(2)
            let isMoved = (try? move()) != nil && (try? audit.reopen()) == true
            moved.withLock { $0 = isMoved }
            copies.settle()
            // The first one's entry goes, and this one's has to stay.
            let hasSettled = (try? await eventually { try entries() == [2] }) != nil
            #expect(hasSettled)
            return version
        }
        let isMoved = moved.withLock { $0 }
        #expect(isMoved)
        #expect(try entries() == [2])
        #expect(try lines() == ["2"])
    }

    @Test func aFileThatCannotBeSynchronisedIsNotLeft() throws {
        let other = try TemporaryDirectory()
        // A synchronisation of this device fails.
        try FileManager.default.createSymbolicLink(
            atPath: other.file("audit.jsonl"), withDestinationPath: "/dev/null")
        let audit = try AuditLog(directory: other.path)
        #expect(audit.write("publishTemplate", [:]))
        try FileManager.default.moveItem(atPath: other.file("audit.jsonl"), toPath: other.file("elsewhere"))
        #expect(throws: AuditLog.Problem.self) { try audit.reopen() }
        #expect(try FileManager.default.contentsOfDirectory(atPath: other.path) == ["elsewhere"])
    }

    @Test func atAStartWithoutRoomEntriesStay() async throws {
        for value in 1...3 {
            let entry = AuditEntry(["action": "publishTemplate"], after: 0)
            _ = try await AuditEntry.$current.withValue(entry) { try await publish(value) }
        }
        disk.leave(1)
        let first = try copies.completeLog()
        #expect(first.written == 1 && first.failed == 2)
        #expect(try entries() == [1, 2, 3])
        disk.leave(.max)
        let second = try copies.completeLog()
        #expect(second.written == 2 && second.failed == 0)
        #expect(try entries().isEmpty)
        #expect(try lines() == ["1 recovered", "2 recovered", "3 recovered"])
    }

    @Test func aLineWithoutRoomFollowsTheNext() async throws {
        try await record(1)
        disk.leave(0)
        try await record(2)
        try await record(3)
        #expect(try lines() == ["1"])
        copies.settle()
        try await eventually { try entries() == [2, 3] }
        disk.leave(2)
        try await record(4)
        #expect(try lines() == ["1", "4", "2 recovered"])
        disk.leave(.max)
        try await record(5)
        #expect(try lines() == ["1", "4", "2 recovered", "5", "3 recovered"])
        copies.settle()
        try await eventually { try entries().isEmpty }
    }
}
