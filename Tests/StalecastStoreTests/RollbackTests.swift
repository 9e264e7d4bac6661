import StalecastStore
import StalecastTestSupport
import StalecastWire
import Testing

@Suite struct RollbackTests {
    let directory = try! TemporaryDirectory()

    @Test func rollbackMakesANewVersionWithTheOldContent() async throws {
        let store = try TemplateStore.make(directory)
        let first = try await store.put("one")
        try await store.put("two")
        let version = try await store.rollback(.demo, to: 1)
        #expect(version.version == 3)
        #expect(version.content == first.content)
        #expect(version.metadata.updateType == .rollback)
        #expect(version.metadata.rollbackSource == 1)
        #expect(version.metadata.description == "Rollback to version 1")
        #expect(version.change.changedKeys == ["greeting"])
        #expect(try await store.version(3, of: .demo) == version)
        #expect(store.figures.rolledBack == 1)
    }

    @Test func rollbackToEqualContentIsAnnouncedToo() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put("same")
        try await store.put("same")
        let version = try await store.rollback(.demo, to: 1, description: "why not")
        #expect(version.version == 3)
        #expect(version.change.changedKeys == [])
        #expect(version.metadata.description == "why not")
    }

    @Test(arguments: [VersionNumber(3), 99, .max])
    func unknownTargetIsRefused(target: VersionNumber) async throws {
        let store = try TemplateStore.make(directory)
        try await store.put(1...2)
        #expect(await storeError { try await store.rollback(.demo, to: target) } == .unknownVersion(target))
        #expect(try await store.numbers() == [2, 1])
    }

    @Test(arguments: [VersionNumber(2), 0])
    func targetThatIsNotLowerIsRefused(target: VersionNumber) async throws {
        let store = try TemplateStore.make(directory)
        try await store.put(1...2)
        let error = await storeError { try await store.rollback(.demo, to: target) }
        #expect(error == .invalidRollback(target: target, current: 2))
    }
}
