import StalecastAccess
import StalecastControl
import StalecastStore
import StalecastWire
import Testing

@Suite("Access", .timeLimit(.minutes(5)))
struct AccessTests {
    @Test(arguments: ["/v1/projects/demo/remoteConfig", "/status", "/metrics", "/v1/projects/demo/topics", "/nowhere"])
    func withoutTheTokenNothingIsTold(path: String) async throws {
        try await ControlFixture.serving { server async throws in
            for token in [nil, "", "wrong", ControlFixture.secret + "x"] as [String?] {
                let reply = try await server.send("GET", path, token: token)
                #expect(reply.status == 401)
                #expect(try reply.errorStatus == "UNAUTHENTICATED")
                #expect(try reply.message.contains("at Edge"), "a caller that took this for the other listener is told")
                #expect(reply.headers["www-authenticate"]?.hasPrefix("Bearer") == true)
            }
        }
    }

    @Test func aStrangersPublishDoesNothing() async throws {
        try await ControlFixture.serving { server async throws in
            let path = ControlFixture.prefix
            let reply = try await server.send("PUT", path, ["If-Match": "*"], body: Array("{}".utf8), token: nil)
            #expect(reply.status == 401)
            #expect(server.store.head() == 0)
        }
    }

    @Test func healthAndReadinessNeedNoToken() async throws {
        try await ControlFixture.serving { server async throws in
            #expect(try await server.send("GET", "/healthz", token: nil).status == 200)
            let reply = try await server.send("GET", "/readyz", token: nil)
            #expect(reply.status == 200)
            #expect(try reply.json == ["ready": true])
        }
        try await ControlFixture.serving(readiness: { ["the disk is full"] }) { server async throws in
            let reply = try await server.send("GET", "/readyz", token: nil)
            #expect(reply.status == 503)
            #expect(try reply.json["reasons"]?.array == ["the disk is full"])
        }
    }

    @Test func metricsCanBeOpened() async throws {
        try await ControlFixture.serving({ $0.settings.metricsWithoutToken = true }) { server async throws in
            let reply = try await server.send("GET", "/metrics", token: nil)
            #expect(reply.status == 200)
            #expect(reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8")
            #expect(try await server.send("GET", "/status", token: nil).status == 401)
        }
    }

    @Test func statusAndTopicsAreServed() async throws {
        try await ControlFixture.serving { server async throws in
            #expect(try await server.send("GET", "/status").json["state"]?.string == "serving")
            let topics = try await server.send("GET", "/v1/projects/demo/topics").json["topics"]?.array ?? []
            #expect(topics.map { $0["name"]?.string } == ["PUSH_RC", "payments"])
            #expect(topics.first?["scopes"]?.array == ["demo/firebase"])
            #expect(topics.first?["subscribers"]?["sse"]?.int64 == 3)
            #expect(topics.last?["subscribers"]?["poll"]?.int64 == 0)
            #expect(topics.last?["keys"]?.array == ["pay_*"])
        }
    }

    @Test func aBackupIsTheAnswerWithItsLength() async throws {
        try await ControlFixture.serving { server async throws in
            #expect(try await server.send("POST", "/v1/backup", token: nil).status == 401)
            for _ in 0..<2 {
                let reply = try await server.send("POST", "/v1/backup")
                #expect(reply.status == 200 && reply.headers["content-type"] == "application/octet-stream")
                #expect(reply.body.count > 10_000 && reply.headers["content-length"] == String(reply.body.count))
                #expect(reply.body.starts(with: "SQLite format 3\0".utf8))
            }
        }
    }

    @Test func thereAreSoManyKeys() async throws {
        try await ControlFixture.serving({ $0.maxKeys = 2 }) { server async throws in
            func make() async throws -> Int {
                try await server.send("POST", "/v1/keys", body: Array(#"{"grants": [{"role": "viewer"}]}"#.utf8)).status
            }
            #expect(try await [make(), make(), make()] == [200, 200, 429])
        }
    }

    @Test func revokedKeysTakeNoPlaceAndTheOldestAreForgotten() async throws {
        try await ControlFixture.serving({ $0.maxKeys = 2 }) { server async throws in
            func make() async throws -> (id: String, text: String) {
                let body = Array(#"{"name": "ci", "grants": [{"role": "viewer"}]}"#.utf8)
                let reply = try await server.send("POST", "/v1/keys", body: body)
                #expect(reply.status == 200)
                return (try reply.json["id"]?.string ?? "", try reply.json["key"]?.string ?? "")
            }
            var made: [(id: String, text: String)] = []
            for _ in 0..<6 {
                let key = try await make()
                made.append(key)
                #expect(try await server.send("POST", "/v1/keys/\(key.id):revoke").status == 200)
                #expect(try await server.send("GET", "/status", token: key.text).status == 401)
            }
            let live = try await make()
            #expect(try await server.send("GET", "/status", token: live.text).status == 200)
            let listed = try await server.send("GET", "/v1/keys").json["keys"]?.array?.map { $0["id"]?.string } ?? []
            #expect(Set(listed) == Set([made[4].id, made[5].id, live.id]))
            #expect(try await server.send("GET", "/status", token: made[0].text).status == 401, "forgotten, not good")
        }
    }

    @Test func expiredKeysTakeNoPlaceAndAreNotForgotten() throws {
        let (now, day) = (Timestamp.now(), Duration.seconds(86_400))
        func key(_ id: String, expires: Timestamp? = nil, revoked: Timestamp? = nil) throws -> AccessKey {
            var key = AccessKey(id: id, kind: .secret, grants: [], secrets: [], expiresAt: expires)
            key.revokedAt = revoked
            return key
        }
        let (quota, shared) = (KeyQuota(most: 2, isShared: false), KeyQuota(most: 2, isShared: true))
        let expired = try (0..<3).map { try key("e\($0)", expires: now.advanced(by: .zero - day)) }
        let revoked = try (0..<3).map { try key("r\($0)", revoked: now.advanced(by: .zero - day)) }
        #expect(quota.outgoing(of: Array(expired.prefix(2)), at: now) == [])
        #expect(quota.outgoing(of: expired, at: now) == nil, "a clock may be wrong: an expired key is kept")
        #expect(quota.outgoing(of: expired + revoked, at: now) == nil)
        #expect(quota.outgoing(of: Array(expired.prefix(2)) + revoked, at: now) == ["r0", "r1", "r2"])
        #expect(shared.outgoing(of: expired + revoked, at: now) == [])
        let live = try (0..<2).map { try key("l\($0)", expires: now.advanced(by: day)) }
        #expect(quota.outgoing(of: live, at: now) == nil)
    }

    @Test func unknownProjectsAreToldTheKnownOnes() async throws {
        try await ControlFixture.serving { server async throws in
            let reply = try await server.send("GET", "/v1/projects/other/remoteConfig")
            #expect(reply.status == 404)
            #expect(try reply.message.contains("demo (123456789012)"))
        }
    }

    @Test func aWrongMethodIsToldTheRightOnes() async throws {
        try await ControlFixture.serving { server async throws in
            let reply = try await server.send("DELETE", ControlFixture.prefix)
            #expect(reply.status == 405)
            #expect(reply.headers["allow"] == "GET, HEAD, PUT, OPTIONS")
            #expect(try reply.json["error"]?["code"]?.int64 == 405)
        }
    }

    @Test func optionsSayWhatIsAllowedToTheBearerOfTheToken() async throws {
        try await ControlFixture.serving { server async throws in
            let reply = try await server.send("OPTIONS", ControlFixture.prefix)
            #expect(reply.status == 204)
            #expect(reply.headers["allow"] == "GET, HEAD, PUT, OPTIONS")
            #expect(try await server.send("OPTIONS", ControlFixture.prefix, token: nil).status == 401)
        }
    }

    @Test func requestsAreCountedByOperationAndStatus() async throws {
        try await ControlFixture.serving { server async throws in
            _ = try await server.send("GET", "/healthz", token: nil)
            _ = try await server.send("GET", "/status", token: nil)
            _ = try await server.send("PUT", ControlFixture.prefix, body: Array("{".utf8))
            let counted = server.tally.requests.map { "\($0.kind.operation) \($0.kind.status) \($0.count)" }
            #expect(counted == ["health 200 1", "publishTemplate 400 1", "refused 401 1"])
        }
    }

    @Test func headHasTheHeadersOfGetAndNoBody() async throws {
        try await ControlFixture.serving { server async throws in
            let get = try await server.send("GET", ControlFixture.prefix)
            let head = try await server.send("HEAD", ControlFixture.prefix)
            #expect(head.status == 200)
            #expect(head.headers["etag"] == get.headers["etag"])
            #expect(head.headers["content-length"] == get.headers["content-length"])
        }
    }
}
