import Foundation
import StalecastStore
import StalecastTestSupport
import StalecastWire
import Testing

/// Tests that messages and their senders stay for a while, without ever growing.
@Suite struct SentMessageTests {
    private let ada = Proposal.Person(principal: "key:ada", user: UpdateUser(name: "Ada"))

    private func message(_ number: Int, _ project: ProjectID = .demo) -> SentMessage {
        SentMessage(
            project: project, name: "projects/demo/messages/\(number)", time: Timestamp(microseconds: 1),
            target: "PUSH_RC", keys: ["a"], sender: ada)
    }

    /// Publishes nothing meanwhile, so nothing else empties the write-ahead log.
    @Test func theNewestStayAndTheLogIsEmptied() async throws {
        let directory = try TemporaryDirectory()
        var configuration = StoreConfiguration.make(directory)
        configuration.checkpointBytes = 64 << 10
        let store = try TemplateStore.open(configuration)
        for number in 0..<600 { await store.keep(message(number)) }
        let found = try await store.messages(of: .demo, limit: 1000)
        #expect(found.count == TemplateStore.mostMessages && found.first == message(599) && found.last == message(300))
        let log = try FileManager.default.attributesOfItem(atPath: directory.database + "-wal")[.size] as? Int
        #expect(try #require(log) < 256 << 10)
        store.close()
        let again = try TemplateStore.make(directory)
        #expect(try await again.messages(of: .demo, limit: 1) == [message(599)])
        #expect(try await again.messages(of: ProjectID("other"), limit: 1).isEmpty)
    }

    @Test func aStoreThatIsClosedKeepsNoneAndSaysSo() async throws {
        let notices = LogLines()
        let store = try TemplateStore.make(try TemporaryDirectory(), log: notices)
        store.close()
        await store.keep(message(1))
        #expect(notices.contains("could not be stored"))
    }
}
