import StalecastStore
import StalecastTestSupport
import StalecastWire
import Testing

/// An entry of the audit log stays in the store until its own line is durable.
@Suite struct AuditEntryTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private func publish(_ values: ClosedRange<Int>, _ store: TemplateStore) async throws {
        for value in values {
            let entry = AuditEntry(["action": "publishTemplate"], after: 0)
            let version = try await AuditEntry.$current.withValue(entry) { try await store.put("\(value)") }
            #expect(entry.commits == [version.change.sequence])
        }
    }

    private func stored(_ store: TemplateStore) throws -> [CommitSequence] {
        try store.auditEntries().map(\.sequence)
    }

    @Test func anEntryWithoutALineKeepsOnlyItself() async throws {
        let store = try TemplateStore.make(directory)
        try await publish(1...6, store)
        store.forgetAuditEntries(of: [6, 1, 3, 4])
        #expect(try stored(store) == [1, 2, 3, 4, 5, 6])
        try await store.put("without an entry")
        #expect(try stored(store) == [2, 5])
        store.forgetAuditEntries(of: [5])
        try await publish(8...8, store)
        #expect(try stored(store) == [2, 8])
    }

    @Test func forgottenEntriesGoWithoutAPublish() async throws {
        let store = try TemplateStore.make(directory)
        try await publish(1...3, store)
        try store.removeForgottenAuditEntries()
        #expect(try stored(store) == [1, 2, 3])
        store.forgetAuditEntries(of: [1, 3])
        try store.removeForgottenAuditEntries()
        #expect(try stored(store) == [2])
    }

    @Test func entriesOfTheProcessBeforeStayUntilTheyAreRemoved() async throws {
        do {
            let store = try TemplateStore.make(directory)
            try await publish(1...2, store)
            store.close()
        }
        let store = try TemplateStore.make(directory)
        try await publish(3...3, store)
        store.forgetAuditEntries(of: [3])
        try await store.put("without an entry")
        #expect(try stored(store) == [1, 2])
        try store.removeAuditEntries()
        #expect(try stored(store).isEmpty)
    }
}
