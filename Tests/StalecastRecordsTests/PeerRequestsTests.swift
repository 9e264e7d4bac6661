import StalecastRecords
import StalecastTestRecords
import StalecastTestSupport
import StalecastWire
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(5))) struct PeerRequestsTests {
    private struct Node {
        let peerRequests: PeerRequests
        let done = Done()
        let tasks: [Task<Void, Never>]

        init(_ mark: String, _ records: MemoryRecords) {
            let board = Informer(records, pause: .milliseconds(1))
            let peerRequests = PeerRequests(mark, board, records)
            self.peerRequests = peerRequests
            tasks = [
                Task { await board.run() },
                Task { [done] in
                    await peerRequests.run { question in
                        done.add(question)
                        return ["echo": question]
                    }
                },
            ]
        }

        func end() { for task in tasks { task.cancel() } }
    }

    private final class Done: Sendable {
        private let all = Mutex<[JSONValue]>([])
        var count: Int { all.withLock(\.count) }
        func add(_ question: JSONValue) { all.withLock { $0.append(question) } }
    }

    @Test func theRunThatIsAskedAnswersOnce() async throws {
        let records = MemoryRecords()
        let (a, b, c) = (Node("a 1", records), Node("b 1", records), Node("c 1", records))
        for number in 0..<20 {
            let question: JSONValue = ["number": .int(number)]
            #expect(try await a.peerRequests.ask("b 1", question, within: .seconds(240)) == ["echo": question])
        }
        #expect(b.done.count == 20 && a.done.count == 0 && c.done.count == 0)
        // A lost watch loses nothing, and nothing is done twice for it.
        records.endWatches()
        #expect(try await c.peerRequests.ask("b 1", ["late": true], within: .seconds(240)) == ["echo": ["late": true]])
        #expect(b.done.count == 21)
        #expect(try await records.all().records.isEmpty, "questions and answers go with their lease")
        for node in [a, b, c] { node.end() }
    }

    @Test func whatIsDoneWhileARunEndsIsAnswered() async throws {
        let records = MemoryRecords()
        let a = Node("a 1", records)
        let (board, asked) = (Informer(records, pause: .milliseconds(1)), Done())
        let watching = Task { await board.run() }
        let ending = Task {
            await PeerRequests("b 1", board, records).run { question in
                asked.add(question)
                // Cancelled: the run ends.
                while (try? await Task.sleep(for: .seconds(3600))) != nil {}
                return ["done": true]
            }
        }
        async let answer = a.peerRequests.ask("b 1", [:], within: .seconds(240))
        try await eventually { asked.count == 1 }
        ending.cancel()
        #expect(try await answer == ["done": true])
        await ending.value
        watching.cancel()
        a.end()
    }

    @Test func aRequestThatIsNotTakenIsGoneForTheNextRun() async throws {
        let records = MemoryRecords()
        let a = Node("a 1", records)
        #expect(try await a.peerRequests.ask("b 1", [:], within: .milliseconds(50)) == nil)
        // The next run of that node is another; what was asked of the one before is not its business.
        let (before, next) = (Node("b 1", records), Node("b 2", records))
        #expect(try await a.peerRequests.ask("b 2", [:], within: .seconds(240)) == ["echo": [:]])
        #expect(before.done.count == 0 && next.done.count == 1)
        for node in [a, before, next] { node.end() }
    }
}
