import StalecastStore
import StalecastWire
import Synchronization
import Testing

/// `Idempotency-Key` as Control reads it; what keys mean is the cluster's.
@Suite("Idempotency-Key", .timeLimit(.minutes(5)))
struct IdempotencyTests {
    private static let rollback = ControlFixture.prefix + ":rollback"

    /// Refuses everything, and keeps the keys.
    private final class Refusing: VersionAuthority {
        let keys = Mutex<[String?]>([])
        let error: StoreError

        init(_ error: StoreError) { self.error = error }

        func commit(_ pending: Candidate) async throws(StoreError) -> StoredVersion {
            keys.withLock { $0.append(pending.idempotencyKey) }
            throw error
        }

        func refresh() async -> Bool { true }
    }

    private func put(_ server: ControlFixture, _ key: String) async throws -> HTTPReply {
        try await server.send(
            "PUT", ControlFixture.prefix, ["If-Match": "*", "Idempotency-Key": key], body: Array("{}".utf8))
    }

    @Test func aKeyIsOfItsTemplateWithOrWithoutQuotationMarks() async throws {
        try await ControlFixture.serving { server async throws in
            let authority = Refusing(.unavailable("no"))
            server.store.setAuthority(authority)
            for key in ["release-7", "\"release-7\"", "\"", String(repeating: "k", count: 255)] {
                #expect(try await put(server, key).status == 503)
            }
            _ = try await server.send(
                "POST", Self.rollback, ["Idempotency-Key": "undo"], body: Array(#"{"versionNumber":1}"#.utf8))
            _ = try await server.publish("without")
            let longest = "demo/firebase " + String(repeating: "k", count: 255)
            let wanted = [
                "demo/firebase release-7", "demo/firebase release-7", "demo/firebase \"", longest, "demo/firebase undo",
                nil,
            ]
            #expect(authority.keys.withLock { $0 } == wanted)
        }
    }

    @Test(arguments: ["", "\"\"", "two words", "tab\tbed", "ключ", String(repeating: "k", count: 256)])
    func aKeyThatIsNoneIsRefused(key: String) async throws {
        try await ControlFixture.serving { server async throws in
            let refusals = [
                try await put(server, key),
                try await server.send(
                    "POST", Self.rollback, ["Idempotency-Key": key], body: Array(#"{"versionNumber":1}"#.utf8)),
            ]
            for refused in refusals {
                #expect(refused.status == 400, "\(refused.text)")
                #expect(try refused.message == "Idempotency-Key must have 1 to 255 visible ASCII characters.")
            }
            #expect(try await server.send("GET", ControlFixture.prefix).headers["etag"] == "etag-123456789012-0")
        }
    }

    @Test func aKeyOfAnotherRequestIsUnprocessable() async throws {
        try await ControlFixture.serving { server async throws in
            server.store.setAuthority(Refusing(.keyReused(3)))
            let reply = try await put(server, "k")
            #expect(reply.status == 422)
            #expect(try reply.errorStatus == "FAILED_PRECONDITION")
            #expect(try reply.message.contains("was used before, for version 3"))
            let detail = try reply.json["error"]?["details"]?.array?.first
            #expect(
                detail?["reason"]?.string == "IDEMPOTENCY_KEY_REUSED" && detail?["outcome"]?.string == "not_committed")
        }
    }
}
