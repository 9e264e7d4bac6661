import StalecastStore
import StalecastTemplate
import StalecastTestSupport
import StalecastWire
import Synchronization
import Testing

@Suite struct AdoptTests {
    let directory = try! TemporaryDirectory()

    private func adoption(
        _ value: String, number: VersionNumber? = nil, metadata: VersionMetadata? = nil, notes: ChangeNotes = .init()
    ) throws -> Adoption {
        Adoption(scope: .demo, template: try .greeting(value), number: number, metadata: metadata, notes: notes)
    }

    @Test func theOriginsOwnNumberIsKept() async throws {
        let store = try TemplateStore.make(directory)
        let version = try #require(try await store.adopt(try adoption("a", number: 17)))
        #expect(version.version == 17)
        #expect(version.etag == "etag-123456789012-17")
        let next = try #require(try await store.adopt(try adoption("b", number: 23)))
        #expect(next.version == 23)
        #expect(next.change.changedKeys == ["greeting"])
        #expect(try await store.numbers() == [23, 17])
    }

    @Test func withoutNumbersEveryChangeCountsAndSoDoesAReturnToEarlierContent() async throws {
        let store = try TemplateStore.make(directory)
        var numbers: [VersionNumber?] = []
        for value in ["a", "a", "b", "a"] { numbers.append(try await store.adopt(try adoption(value))?.version) }
        #expect(numbers == [1, nil, 2, 3])
    }

    @Test func aRestartKnowsWhatIsCurrent() async throws {
        var store: TemplateStore? = try TemplateStore.make(directory)
        _ = try await store?.adopt(try adoption("a"))
        store?.close()
        store = nil
        let reopened = try TemplateStore.make(directory)
        #expect(try await reopened.adopt(try adoption("a")) == nil)
        #expect(try await reopened.adopt(try adoption("b"))?.version == 2)
    }

    @Test func theSameNumberWithTheSameContentIsNothingNew() async throws {
        let store = try TemplateStore.make(directory)
        _ = try await store.adopt(try adoption("a", number: 5))
        #expect(try await store.adopt(try adoption("a", number: 5)) == nil)
        #expect(store.head() == 1)
    }

    @Test func composedAndDecomposedLettersAreDifferentContent() async throws {
        let store = try TemplateStore.make(directory)
        _ = try await store.adopt(try adoption("caf\u{E9}"))
        let next = try #require(try await store.adopt(try adoption("cafe\u{301}")))
        #expect(next.version == 2)
        #expect(try #require(next.template.greeting).utf8.elementsEqual("cafe\u{301}".utf8))
    }

    @Test func afterTheHighestNumberNothingIsCommittedAndTheStoreGoesOn() async throws {
        let store = try TemplateStore.make(directory)
        let last = try #require(try await store.adopt(try adoption("a", number: .max)))
        #expect(last.etag == "etag-123456789012-9007199254740992")
        #expect(await storeError { try await store.put("b") } == .numbersExhausted(.demo))
        #expect(await storeError { try await store.adopt(try adoption("c")) } == .numbersExhausted(.demo))
        try await store.put("other", in: .demoServer)
        #expect(await storeError { try await store.rollback(.demo, to: 1) } == .unknownVersion(1))
        #expect(try store.changes(of: .demo, after: 0, limit: 10).map(\.version) == [.max])
    }

    @Test func anOriginsTextsEndAtNoNUL() async throws {
        let metadata = VersionMetadata(
            number: 1, updateTime: .now(), updateUser: UpdateUser(name: "a\0b"), description: "c\0d")
        let store = try TemplateStore.make(directory)
        let version = try #require(try await store.adopt(try adoption("a", metadata: metadata)))
        store.close()
        let stored = try #require(try await TemplateStore.make(directory).current(.demo))
        #expect(stored == version)
        #expect((stored.metadata.description, stored.metadata.updateUser.name) == ("cd", "ab"))
    }

    @Test func aNewNumberCountsEvenWithTheSameContent() async throws {
        let store = try TemplateStore.make(directory)
        _ = try await store.adopt(try adoption("a", number: 5))
        let next = try #require(try await store.adopt(try adoption("a", number: 6)))
        #expect(next.change.changedKeys == [])
    }

    @Test func numbersNeverGoBackAndNeverGetOtherContent() async throws {
        let store = try TemplateStore.make(directory)
        _ = try await store.adopt(try adoption("a", number: 5))
        let older = try adoption("old", number: 4)
        #expect(older.relation(to: store.currentTemplates[.demo]) == .isOlder(than: 5))
        #expect(await storeError { try await store.adopt(older) } == .versionMismatch(expected: 4, found: 5))
        let other = try adoption("b", number: 5)
        #expect(other.relation(to: store.currentTemplates[.demo]) == .contradicts)
        #expect(await storeError { try await store.adopt(other) } == .versionMismatch(expected: 5, found: 5))
        #expect(try await store.numbers() == [5])
    }

    @Test func whatTheOriginSaysIsCarried() async throws {
        let store = try TemplateStore.make(directory)
        let time = Timestamp(microseconds: 1_790_000_000_000_000)
        let metadata = VersionMetadata(
            number: 9, updateTime: time, updateUser: UpdateUser(email: "ann@example.test"), description: "back again",
            updateOrigin: .console, updateType: .rollback, rollbackSource: 7)
        let version = try #require(try await store.adopt(try adoption("a", number: 9, metadata: metadata)))
        #expect(version.metadata == metadata)
        let stored = try #require(try await store.versions(of: .demo, VersionQuery()).versions.first)
        #expect(stored == metadata)
    }

    @Test func countedVersionsTakeTheMetadataAndTheirOwnNumber() async throws {
        let store = try TemplateStore.make(directory)
        let metadata = VersionMetadata(number: 41, updateTime: Timestamp(microseconds: 5), updateOrigin: .console)
        let version = try #require(try await store.adopt(try adoption("a", metadata: metadata)))
        #expect(version.version == 1)
        #expect(version.metadata.number == 1)
        #expect(version.metadata.updateOrigin == .console)
    }

    @Test func notesReachTheCommitHandler() async throws {
        let store = try TemplateStore.make(directory)
        let heard = Mutex<[ChangeNotes]>([])
        store.setCommitHandler { stored in heard.withLock { $0.append(stored.change.notes) } }
        let notes = ChangeNotes(isUrgent: true, hasFenceTimedOut: true)
        _ = try await store.adopt(try adoption("a", notes: notes))
        _ = try await store.publish(
            Publish(scope: .demo, template: try .greeting("b"), precondition: .any, isUrgent: true))
        try await store.put("c")
        #expect(heard.withLock { $0 } == [notes, ChangeNotes(isUrgent: true), ChangeNotes()])
    }

    @Test func ofManyAdoptionsOfOneNumberOneIsCommitted() async throws {
        let store = try TemplateStore.make(directory)
        let results = await withTaskGroup(of: VersionNumber?.self) { group in
            for _ in 0..<16 {
                group.addTask {
                    try? await store.adopt(  // The others are refused or find it current.
                        Adoption(scope: .demo, template: try .greeting("a"), number: 3))?.version
                }
            }
            return await group.reduce(into: [VersionNumber]()) { if let number = $1 { $0.append(number) } }
        }
        #expect(results == [3])
        #expect(try await store.numbers() == [3])
    }
}
