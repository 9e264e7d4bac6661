import Foundation
import StalecastClient
import StalecastTestServers
import StalecastTestSupport
import Testing

/// The parsers read what Edge is tested to write.
@Suite struct GoldenTranscriptTests {
    private static let epoch = "abcdefghijklmnopqrstuvwxyz"
    private let log = ConnectionLog()

    /// Events without the connection's own states.
    private var told: [ConnectionEvent] {
        log.events.filter { if case .state = $0 { false } else { true } }
    }

    private func check(_ notice: StaleNotice, version: Int64) {
        #expect(notice.version == version && notice.topic == "PUSH_RC" && notice.project == "demo")
        #expect(notice.namespace == "firebase" && notice.etag == "etag-123456789012-\(version)")
        #expect(notice.data["updateTime"] == "2026-11-20T13:00:00.000000Z" && notice.fetchWindowMs == 0)
    }

    @Test func eventsAreUnderstood() async throws {
        let transcript = try GoldenTranscript.events.text()
        try await StreamServer.serving { peer, count in
            if count == 0 { peer.openStream(transcript) }
        } _: { server in
            let connection = StaleConnection.test(server, log, topics: ["PUSH_RC", "NOBODY"], cursor: "nonsense")
            connection.start()
            defer { connection.stop() }
            try await eventually { log.versions == [1, 2, 3] }
            #expect(told.first == .reset(reason: "malformed"))
            #expect(told.contains(.unknownTopics(["NOBODY"])))
            #expect(log.cursors.first == "\(Self.epoch).1")
            for (number, notice) in log.notices.enumerated() { check(notice, version: Int64(number + 1)) }
            #expect(log.notices.map(\.changedKeys) == [nil, ["pay_x", "welcome_text"], ["pay_x"]])
            #expect(log.notices.map(\.sinceVersion) == [nil, 1, 2])
            #expect(log.notices.map(\.cursor) == (1...3).map { "\(Self.epoch).\($0)" })
            #expect(log.notices.last?.updateType == "ROLLBACK" && log.notices.last?.data["rollbackSource"] == "1")
        }
    }

    @Test func aPollIsUnderstood() async throws {
        let answer = try GoldenTranscript.poll.text()
        try await StreamServer.serving { peer, _ in
            guard peer.path.hasPrefix("/v1/poll") else {
                return peer.answer(200, ["Content-Type: text/html"], "a portal")
            }
            if peer.path.contains("wait=0") { peer.answer(json: answer) }
        } _: { server in
            let connection = StaleConnection.test(server, log, topics: ["PUSH_RC", "NOBODY"], cursor: "nonsense")
            connection.start()
            defer { connection.stop() }
            try await eventually { log.cursors.first == "\(Self.epoch).3" }
            #expect(told.first == .reset(reason: "malformed"))
            #expect(told.contains(.unknownTopics(["NOBODY"])))
            check(try #require(log.notices.first), version: 3)
            #expect(log.notices.first?.updateType == "ROLLBACK" && log.notices.first?.changedKeys == nil)
        }
    }

    @Test func invalidationsAreUnderstood() async throws {
        let transcript = try GoldenTranscript.invalidations.text()
        try await StreamServer.serving { peer, _ in
            peer.openStream(transcript, type: "application/json")
        } _: { server in
            let connection = StaleConnection.test(server, log) { options in
                options.dialect = .firebase(
                    FirebaseStreamRequest(project: "demo", namespace: "firebase", apiKey: "", appID: "1:2:ios:3") {
                        ("instance", "token")
                    })
            }
            connection.start()
            defer { connection.stop() }
            try await eventually { log.versions == [1, 2, 3] }
            #expect(told.count == 3)
        }
    }
}
