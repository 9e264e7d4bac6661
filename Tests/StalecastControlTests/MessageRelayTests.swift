import StalecastControl
import StalecastHub
import StalecastRecords
import StalecastTestRecords
import StalecastTestSupport
import StalecastWire
import Synchronization
import Testing

/// Messages that are sent by hand at one node and reach the subscribers of all.
@Suite(.timeLimit(.minutes(5))) struct MessageRelayTests {
    private final class Node: Sendable {
        let hub = Hub(board: TopicBoard(epoch: .random(), head: 0, bindings: [], changes: []))
        let relay: MessageRelay
        let membership: Membership
        private let texts = Mutex<[String]>([])
        private let task = Mutex<Task<Void, Never>?>(nil)

        init(_ name: String, _ records: MemoryRecords) async throws {
            membership = Membership(name, records, clock: { .zero }, report: { _ in })
            relay = MessageRelay(membership)
            _ = hub.attach { [weak self] event in
                guard case .data(let message) = event else { return }
                self?.texts.withLock { $0.append(String(decoding: message.json, as: UTF8.self)) }
            }
            await relay.attach(to: hub)
            task.withLock { [membership] in $0 = Task { await membership.informer.run() } }
        }

        deinit { task.withLock { $0?.cancel() } }

        var heard: [String] { texts.withLock { $0 } }
    }

    @Test func everyNodeSendsIt() async throws {
        let records = MemoryRecords()
        let (a, b) = (try await Node("a", records), try await Node("b", records))
        for node in [a, b] { try await eventually { await node.membership.informer.isRead } }
        try await ControlFixture.serving(relay: a.relay) { server async throws in
            func send(_ text: String) async throws -> Int {
                let body = #"{"message":{"topic":"PUSH_RC","data":{"k":"\#(text)"}}}"#
                return try await server.send("POST", "/v1/projects/demo/messages:send", body: Array(body.utf8)).status
            }
            for text in ["1", "2"] { #expect(try await send(text) == 200) }
            for node in [a, b] { try await eventually { node.heard == [#"{"k":"1"}"#, #"{"k":"2"}"#] } }
            records.setAway(true)
            #expect(try await send("3") == 504)
        }
    }

    @Test func whatIsNoMessageIsIgnored() async throws {
        let records = MemoryRecords()
        let a = try await Node("a", records)
        try await eventually { await a.membership.informer.isRead }
        let texts = [
            "", "7", "{}", #"{"project":"demo"}"#, #"{"project":"?","message":{"topic":"PUSH_RC"}}"#,
            #"{"project":"demo","message":{"topic":7,"data":[]}}"#,
            #"{"project":"demo","message":{"topic":"PUSH_RC","data":{"k":"v"}}}"#,
        ]
        for (number, text) in texts.enumerated() {
            _ = try await records.put(
                Array(text.utf8), to: RecordName(MessageRelay.kind, "\(number)"), over: nil, lease: nil)
        }
        try await eventually { a.heard == [#"{"k":"v"}"#] }
    }
}
