package import StalecastWire
import Synchronization

/// Requests from one node to another, for work that only the other can do. They are shared records: `ask/<id>` under
/// the asking node's lease, and `answer/<id>`, written once under the same lease. Nodes need no addresses, certificates
/// or credentials of each other.
///
/// A node that returns after an absence no longer finds the request, and the answer of a node that stood still while it
/// worked reaches no caller. Without an answer the outcome is unknown.
package final class PeerRequests: Sendable {
    private struct Question: Sendable {
        let id: String
        let lease: RecordLease
        let body: JSONValue
    }

    private static let question = "ask"
    private static let answer = "answer"
    /// Bytes of a question or an answer, encoded; the rest of a record is for what stands around it.
    package static let maxBytes = SharedRecord.maxBytes - 4096
    /// Questions that are answered at the same time; others are not heard.
    private static let most = 64
    /// A question stays for so long after its last waiter left, where it cannot be taken back.
    private static let grace = Duration.seconds(5)

    private let mark: String
    private let informer: Informer
    private let records: any SharedRecords
    private let waiting = Mutex<[String: AsyncStream<JSONValue>.Continuation]>([:])
    private let heard = AsyncStream.makeStream(of: Question.self, bufferingPolicy: .bufferingNewest(most))
    private let underWay = Mutex(0)

    /// - Parameter mark: of this run of this node, unlike any other's; what is asked of it names it.
    package init(_ mark: String, _ informer: Informer, _ records: any SharedRecords) {
        (self.mark, self.informer, self.records) = (mark, informer, records)
    }

    /// Asks a run of a node.
    ///
    /// - Parameters:
    ///   - to: its mark.
    ///   - time: for the answer.
    /// - Returns: nil when there was no answer in time.
    package func ask(
        _ to: String, _ body: JSONValue, within time: Duration
    ) async throws(LogError) -> JSONValue? {
        let id = Epoch.random().description
        let (answers, continuation) = AsyncStream.makeStream(of: JSONValue.self, bufferingPolicy: .bufferingOldest(1))
        waiting.withLock { $0[id] = continuation }
        defer { waiting.withLock { $0[id] = nil } }
        let lease = try await records.grant(.seconds((time + Self.grace).components.seconds + 1))
        let value: JSONValue = ["to": .string(to), "lease": .int(lease), "ask": body]
        let outcome = try await informer.put(
            value.encoded(), to: RecordName(Self.question, id), over: nil, lease: lease)
        guard case .done = outcome else { throw .notDone("a question of this id is there already") }
        // Cancelled when this returns.
        let timer = Task {
            // Cancelled: the answer is there.
            try? await Task.sleep(for: time)
            continuation.finish()
        }
        defer { timer.cancel() }
        var first: JSONValue?
        for await answer in answers {
            first = answer
            break
        }
        // Both records go with it; if it is not done, they go when it ends.
        try? await records.revoke(lease)
        return first
    }

    /// Answers what this run is asked, and hears of answers, until its task is cancelled. Once.
    package func run(_ answerer: @escaping @Sendable (JSONValue) async -> JSONValue) async {
        await informer.observe(Self.question) { [self] change in
            // What is no question is ignored.
            guard case .put(let record) = change, let value = JSONValue.ifValid(record.value),
                value["to"]?.string == mark, let lease = value["lease"]?.int64, let body = value["ask"]
            else { return }
            heard.continuation.yield(Question(id: record.name.id, lease: lease, body: body))
        }
        await informer.observe(Self.answer) { [self] change in
            // What is no answer is ignored.
            guard case .put(let record) = change, let value = JSONValue.ifValid(record.value) else { return }
            let asker = waiting.withLock { $0[record.name.id] }
            asker?.yield(value)
        }
        await withDiscardingTaskGroup { group in
            for await question in heard.stream where begins() {
                group.addTask {
                    await self.answer(question, answerer)
                    self.underWay.withLock { $0 -= 1 }
                }
            }
            group.cancelAll()
        }
    }

    private func begins() -> Bool {
        underWay.withLock { count in
            guard count < Self.most else { return false }
            count += 1
            return true
        }
    }

    private func answer(_ question: Question, _ answerer: @Sendable (JSONValue) async -> JSONValue) async {
        // Taken back meanwhile: no caller waits.
        guard await informer.record(RecordName(Self.question, question.id)) != nil else { return }
        let value = await answerer(question.body).encoded()
        // The lease has ended, or etcd is away: the asker says that it does not know.
        let name = RecordName(Self.answer, question.id)
        // Waited for here. A call of this task, which is cancelled when the node ends, would not be made.
        await Task { [informer] in
            _ = try? await informer.put(value, to: name, over: nil, lease: question.lease)
        }.value
    }
}
