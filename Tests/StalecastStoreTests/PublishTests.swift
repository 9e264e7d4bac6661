import StalecastStore
import StalecastTemplate
import StalecastTestSupport
import StalecastWire
import Synchronization
import Testing

@Suite struct PublishTests {
    let directory = try! TemporaryDirectory()

    @Test func firstVersionIsOneWithFirebasesETag() async throws {
        let store = try TemplateStore.make(directory)
        #expect(try await store.current(.demo) == nil)
        let version = try await store.put("hello")
        #expect(version.version == 1)
        #expect(version.etag == "etag-123456789012-1")
        #expect(version.change.sequence == 1)
        #expect(version.change.changedKeys == ["greeting"])
        #expect(try JSONValue.parse(version.content) == version.template.json)
        #expect(try await store.current(.demo) == version)
    }

    @Test func versionsCountPerScopeAndSequencesCountStoreWide() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put(1...2)
        let server = try await store.put("x", in: .demoServer)
        let third = try await store.put("3")
        #expect((server.version, server.change.sequence) == (1, 3))
        #expect((third.version, third.change.sequence) == (3, 4))
        #expect(store.head() == 4)
        #expect(store.currentTemplates.scopes == [.demo, .demoServer])
    }

    @Test func equalContentStillMakesANewVersionWithoutChangedKeys() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put("same")
        let second = try await store.put("same")
        #expect(second.version == 2)
        #expect(second.change.changedKeys == [])
    }

    @Test func etagMakesTheUpdateIncrementalAndAnyMakesItForced() async throws {
        let store = try TemplateStore.make(directory)
        let empty = Publish(
            scope: .demo, template: try .greeting("a"), precondition: .etag("etag-123456789012-0"),
            description: "first", user: UpdateUser(name: "Ann"), origin: .console)
        let first = try await store.publish(empty)
        #expect(first.metadata.updateType == .incremental)
        #expect(first.metadata.description == "first")
        #expect(first.metadata.updateUser.name == "Ann")
        #expect(first.metadata.updateOrigin == .console)
        #expect(try await store.put("b").metadata.updateType == .forced)
    }

    @Test func staleETagIsRefusedWithBothNumbersAndNothingIsStored() async throws {
        let store = try TemplateStore.make(directory)
        let first = try await store.put("a")
        try await store.put("b")
        let stale = Publish(scope: .demo, template: try .greeting("c"), precondition: .etag(first.etag))
        #expect(await storeError { try await store.publish(stale) } == .versionMismatch(expected: 1, found: 2))
        #expect(await storeError { try store.check(stale) } == .versionMismatch(expected: 1, found: 2))
        #expect(try await store.numbers() == [2, 1])
        #expect(store.figures.mismatched == 1)
    }

    @Test func checkTellsTheChangedKeysAndChangesNothing() async throws {
        let store = try TemplateStore.make(directory)
        let publish = Publish(scope: .demo, template: try .greeting("c"), precondition: .any)
        #expect(try store.check(publish) == ["greeting"])
        #expect(try await store.current(.demo) == nil)
        #expect(store.head() == 0)
    }

    @Test func ofFiftyConcurrentPublishesWithOneETagExactlyOneSucceeds() async throws {
        let store = try TemplateStore.make(directory)
        let etag = try await store.put("base").etag
        let results = await withTaskGroup(of: StoreError?.self) { group in
            for value in 1...50 {
                group.addTask {
                    await storeError {
                        let template = try Template.greeting("\(value)")
                        return try await store.publish(
                            Publish(scope: .demo, template: template, precondition: .etag(etag)))
                    }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(results.count { $0 == nil } == 1)
        #expect(results.count { $0 == .versionMismatch(expected: 1, found: 2) } == 49)
        #expect(try await store.numbers() == [2, 1])
    }

    @Test func commitsAreAnnouncedInSequenceOrderDurableAndVisible() async throws {
        let store = try TemplateStore.make(directory)
        let seen = Mutex<[StoredVersion]>([])
        let invisible = Mutex(0)
        store.setCommitHandler { version in
            if store.currentTemplates[version.scope] != version { invisible.withLock { $0 += 1 } }
            seen.withLock { $0.append(version) }
        }
        let scopes: [Scope] = [.demo, .demoServer]
        try await withThrowingTaskGroup(of: Void.self) { group in
            for value in 0..<200 { group.addTask { try await store.put("\(value)", in: scopes[value % 2]) } }
            try await group.waitForAll()
        }
        let announced = seen.withLock { $0 }
        #expect(announced.map(\.change.sequence) == Array(1...200))
        #expect(announced.filter { $0.scope == .demo }.map(\.version) == Array(1...100))
        #expect(invisible.withLock { $0 } == 0)
        #expect(store.figures.commits.count == 200)
    }

    /// The first message must not wait for what a large template takes.
    @Test func aVersionIsReadyForFetchesWhenItIsAnnounced() async throws {
        let store = try TemplateStore.make(directory)
        let values = Mutex<[String?]>([])
        store.setCommitHandler { version in values.withLock { $0.append(version.ready?.compiled.texts.first) } }
        for value in ["a", "b"] { try await store.put(value) }
        _ = try await store.rollback(.demo, to: 1)
        #expect(values.withLock { $0 } == ["a", "b", "a"])
    }

    @Test func cancelledPublisherDoesNotInterruptItsPublish() async throws {
        let store = try TemplateStore.make(directory)
        let task = Task { try await store.put("a") }
        task.cancel()
        #expect(try await task.value.version == 1)
        #expect(try await store.put("b").version == 2)
    }

    @Test func unconfiguredProjectIsRefused() async throws {
        let store = try TemplateStore.make(directory)
        let other = Scope(project: try ProjectID("other"), namespace: .firebase)
        #expect(await storeError { try await store.put("a", in: other) } == .unknownProject(other.project))
    }

    @Test func projectsResolveByIdAndByNumber() throws {
        let store = try TemplateStore.make(directory)
        #expect(store.projects.resolve("demo") == Scope.demo.project)
        #expect(store.projects.resolve("123456789012") == Scope.demo.project)
        #expect(store.projects.resolve("12345678901") == nil)
        #expect(throws: StoreError.self) { try ProjectTable([.demo, .demo]) }
    }

    @Test func publishAfterCloseIsRefusedAsNotCommitted() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put("a")
        store.close()
        store.close()
        let error = await storeError { try await store.put("b") }
        guard case .unavailable = error else { throw try #require(error) }
        let reopened = try TemplateStore.make(directory)
        #expect(try await reopened.numbers() == [1])
    }
}
