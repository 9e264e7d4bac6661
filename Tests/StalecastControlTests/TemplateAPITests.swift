import StalecastControl
import StalecastStore
import StalecastWire
import Testing

@Suite("Template API", .timeLimit(.minutes(5)))
struct TemplateAPITests {
    private let path = ControlFixture.prefix

    @Test func anEmptyProjectHasExplicitEmptyCollectionsAndVersionZero() async throws {
        try await ControlFixture.serving { server async throws in
            let reply = try await server.send("GET", path)
            #expect(reply.status == 200)
            #expect(reply.headers["etag"] == "etag-123456789012-0")
            #expect(reply.text == #"{"conditions":[],"parameters":{},"parameterGroups":{}}"#)
        }
    }

    @Test func aPublishIsVisibleWithItsVersionAndETag() async throws {
        try await ControlFixture.serving { server async throws in
            let published = try await server.publish("hi", ifMatch: "etag-123456789012-0")
            #expect(published.status == 200)
            #expect(published.headers["etag"] == "etag-123456789012-1")
            #expect(try published.json["version"]?["updateType"]?.string == "INCREMENTAL_UPDATE")
            let byNumber = try await server.send("GET", "/v1/projects/123456789012/namespaces/firebase/remoteConfig")
            #expect(byNumber.body == published.body)
            #expect(byNumber.headers["etag"] == "etag-123456789012-1")
        }
    }

    @Test func aVersionThatReachesItsClientsInStagesSaysSoInAHeader() async throws {
        try await ControlFixture.serving { server async throws in
            func field(_ method: String, _ target: String, _ body: String = "{}") async throws -> String? {
                let fields = method == "PUT" ? ["If-Match": "*"] : [:]
                let reply = try await server.send(method, path + target, fields, body: Array(body.utf8))
                #expect(reply.status == 200, "\(method) \(target): \(reply.text)")
                return reply.headers["x-stalecast-release"]
            }
            let staged = "release=staged&stages=0.5%25,10%25,100%25&every=0s"
            #expect(try await field("PUT", "") == nil)
            #expect(try await field("PUT", "?validateOnly=true&\(staged)") == "PENDING; percent=0")
            #expect(try await field("GET", "") == nil)
            #expect(try await field("PUT", "?\(staged)") == "RAMPING; percent=0.5")
            #expect(try await field("GET", "") == "RAMPING; percent=0.5")
            #expect(try await field("GET", "?versionNumber=1") == nil)
            _ = try await field("POST", "/release:advance")
            #expect(try await field("GET", "?prettyPrint=true") == "RAMPING; percent=10")
            _ = try await field("POST", "/release:advance")
            #expect(try await field("GET", "") == "BAKING; percent=100")
            _ = try await field("POST", "/release:rollback")
            #expect(try await field("GET", "") == nil)
        }
    }

    @Test func aPublishWithAStarIsForced() async throws {
        try await ControlFixture.serving { server async throws in
            #expect(try await server.publish("hi").json["version"]?["updateType"]?.string == "FORCED_UPDATE")
        }
    }

    @Test(arguments: ["\"etag-123456789012-1\"", "W/\"etag-123456789012-1\"", "etag-123456789012-1"])
    func quotedAndWeakETagsAreTolerated(etag: String) async throws {
        try await ControlFixture.serving { server async throws in
            try await server.publish("one")
            #expect(try await server.publish("two", ifMatch: etag).status == 200)
        }
    }

    @Test func aMissingIfMatchIsRefusedInGooglesWords() async throws {
        try await ControlFixture.serving { server async throws in
            let reply = try await server.send("PUT", path, body: Array("{}".utf8))
            #expect(reply.status == 400)
            let wanted = "[VERSION_MISMATCH]: No If-Match header found on UpdateRemoteConfig call"
            #expect(try reply.message == wanted)
        }
    }

    @Test func aStaleETagIsRefusedAndChangesNothing() async throws {
        try await ControlFixture.serving { server async throws in
            try await server.publish("one")
            try await server.publish("two")
            let reply = try await server.publish("three", ifMatch: "etag-123456789012-1")
            #expect(reply.status == 400)
            #expect(try reply.errorStatus == "FAILED_PRECONDITION")
            #expect(try reply.message == "[VERSION_MISMATCH]: Expected version 1, found 2 for project: 123456789012")
            #expect(try await server.send("GET", path).headers["etag"] == "etag-123456789012-2")
        }
    }

    @Test func aFullDiskRefusesPublishesHonestlyAndServesReads() async throws {
        try await ControlFixture.serving(storing: { $0.minFreeBytes = .max }) { server async throws in
            let reply = try await server.publish("one")
            #expect(reply.status == 503)
            #expect(reply.headers["retry-after"] != nil)
            #expect(try reply.json["error"]?["details"]?.array?.first?["outcome"]?.string == "not_committed")
            #expect(try await server.send("GET", path).status == 200)
        }
    }

    @Test func aStaleETagIsAConflictWhenConfiguredSo() async throws {
        try await ControlFixture.serving({ $0.settings.staleETagStatus = .conflict }) { server async throws in
            let reply = try await server.publish("one", ifMatch: "etag-123456789012-7")
            #expect(reply.status == 409)
            #expect(try reply.errorStatus == "ABORTED")
        }
    }

    @Test func ofFiftyConcurrentPublishesWithOneETagExactlyOneSucceeds() async throws {
        try await ControlFixture.serving { server async throws in
            let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
                for number in 0..<50 {
                    group.addTask { try await server.publish("v\(number)", ifMatch: "etag-123456789012-0").status }
                }
                return try await group.reduce(into: [:]) { $0[$1, default: 0] += 1 }
            }
            #expect(statuses == [200: 1, 400: 49])
            #expect(server.store.head() == 1)
        }
    }

    @Test(arguments: ["?validateOnly=true", "?validate_only=true"])
    func validateOnlyChecksEverythingAndChangesNothing(query: String) async throws {
        try await ControlFixture.serving { server async throws in
            try await server.publish("one")
            let reply = try await server.publish("two", ifMatch: "etag-123456789012-1", query: query)
            #expect(reply.status == 200)
            #expect(reply.headers["etag"] == "etag-123456789012-0")
            #expect(try reply.json["parameters"]?["greeting"]?["defaultValue"]?["value"]?.string == "two")
            #expect(server.store.head() == 1)
            #expect(try await server.publish("two", ifMatch: "etag-123456789012-0", query: query).status == 400)
            #expect(try await server.send("PUT", path + query, body: Array("{}".utf8)).status == 400)
        }
    }

    @Test(arguments: ["validateonly", "ValidateOnly", "validate-only", "VALIDATE_ONLY"])
    func aMisspeltDryRunChangesNothing(name: String) async throws {
        try await ControlFixture.serving { server async throws in
            try await server.publish("one")
            try await server.publish("two")
            #expect(try await server.publish("three", query: "?\(name)=true").status == 400)
            let body = Array(#"{"versionNumber":1}"#.utf8)
            for name in [name, "validateOnly"] {
                let reply = try await server.send("POST", path + ":rollback?\(name)=true", body: body)
                #expect(reply.status == 400)
            }
            #expect(server.store.head() == 2)
        }
    }

    @Test func aRollbackHonoursIfMatch() async throws {
        try await ControlFixture.serving { server async throws in
            try await server.publish("one")
            try await server.publish("two")
            let body = Array(#"{"versionNumber":1}"#.utf8)
            let stale = try await server.send(
                "POST", path + ":rollback", ["If-Match": "etag-123456789012-1"], body: body)
            #expect(stale.status == 400)
            #expect(try stale.message.contains("[VERSION_MISMATCH]") && server.store.head() == 2)
            for tag in ["etag-123456789012-2", "*"] {
                let reply = try await server.send("POST", path + ":rollback", ["If-Match": tag], body: body)
                #expect(reply.status == 200)
            }
        }
    }

    @Test func invalidTemplatesAreRefusedWithAllTheirProblems() async throws {
        try await ControlFixture.serving { server async throws in
            let body =
                #"{"parameters":{"1x":{"defaultValue":{"value":"a"}},"ok":{"conditionalValues":{"nope":{"value":"b"}}}}}"#
            let reply = try await server.send("PUT", path, ["If-Match": "*"], body: Array(body.utf8))
            #expect(reply.status == 400)
            #expect(try reply.errorStatus == "INVALID_ARGUMENT")
            #expect(try reply.message.contains("[VALIDATION_ERROR]"))
            #expect(try reply.json["error"]?["details"]?.array?.first?["fieldViolations"]?.array?.count ?? 0 >= 2)
            #expect(server.store.head() == 0)
        }
    }

    @Test(arguments: ["", "[", "nonsense", "[]", "\"\"", String(repeating: "[", count: 100_000)])
    func bodiesThatAreNoTemplateAreInvalidArguments(body: String) async throws {
        try await ControlFixture.serving { server async throws in
            let reply = try await server.send("PUT", path, ["If-Match": "*"], body: Array(body.utf8))
            #expect(reply.status == 400)
            #expect(try reply.errorStatus == "INVALID_ARGUMENT")
        }
    }

    @Test func theNodeAdminSDKIsRecognised() async throws {
        try await ControlFixture.serving { server async throws in
            let headers = ["If-Match": "*", "X-Firebase-Client": "fire-admin-node/13.0.0"]
            let reply = try await server.send("PUT", path, headers, body: Array("{}".utf8))
            #expect(try reply.json["version"]?["updateOrigin"]?.string == "ADMIN_SDK_NODE")
            #expect(try await server.publish("x").json["version"]?["updateOrigin"]?.string == "REST_API")
        }
    }

    @Test func descriptionsOfPublishesAreKept() async throws {
        try await ControlFixture.serving { server async throws in
            let body = #"{"version":{"description":"winter é","versionNumber":"77"}}"#
            let reply = try await server.send("PUT", path, ["If-Match": "*"], body: Array(body.utf8))
            #expect(try reply.json["version"]?["description"]?.string == "winter é")
            #expect(try reply.json["version"]?["versionNumber"]?.string == "1")
        }
    }

    @Test(arguments: ["?versionNumber=1", "?version_number=1", "?prettyPrint=true&versionNumber=1&key=x&alt=json"])
    func olderVersionsCanBeRead(query: String) async throws {
        try await ControlFixture.serving { server async throws in
            try await server.publish("one")
            try await server.publish("two")
            let reply = try await server.send("GET", path + query)
            #expect(reply.headers["etag"] == "etag-123456789012-1")
            #expect(try reply.json["parameters"]?["greeting"]?["defaultValue"]?["value"]?.string == "one")
            let unknown = try await server.send("GET", path + "?versionNumber=9")
            #expect(unknown.status == 404)
            #expect(try unknown.errorStatus == "NOT_FOUND")
        }
    }

    @Test func ifNoneMatchIsIgnored() async throws {
        try await ControlFixture.serving { server async throws in
            let reply = try await server.publish("one")
            let etag = try #require(reply.headers["etag"])
            #expect(try await server.send("GET", path, ["If-None-Match": etag]).status == 200)
        }
    }

    @Test func namespacesHaveVersionsOfTheirOwn() async throws {
        try await ControlFixture.serving { server async throws in
            try await server.publish("one")
            let serverPath = "/v1/projects/demo/namespaces/firebase-server/remoteConfig"
            #expect(try await server.send("GET", serverPath).headers["etag"] == "etag-123456789012-0")
            let unknown = try await server.send("GET", "/v1/projects/demo/namespaces/other/remoteConfig")
            #expect(unknown.status == 404)
            #expect(try unknown.message.contains("firebase-server"))
        }
    }

    @Test func listVersionsPagesFromTheNewest() async throws {
        try await ControlFixture.serving { server async throws in
            #expect(try await server.send("GET", path + ":listVersions").text == "{}")
            for number in 1...5 { try await server.publish("v\(number)") }
            var numbers: [String] = []
            var token: String?
            repeat {
                let query = "?pageSize=2" + (token.map { "&page_token=\($0)" } ?? "")
                let page = try await server.send("GET", path + ":listVersions" + query).json
                let versions = page["versions"]?.array ?? []
                #expect(versions.count <= 2)
                numbers += versions.compactMap { $0["versionNumber"]?.string }
                token = page["nextPageToken"]?.string
            } while token != nil
            #expect(numbers == ["5", "4", "3", "2", "1"])
            let older = try await server.send("GET", path + ":listVersions?end_version_number=2").json
            #expect(older["versions"]?.array?.count == 2)
            let none = try await server.send("GET", path + ":listVersions?startTime=2199-01-01T00:00:00Z")
            #expect(none.text == "{}")
        }
    }

    @Test(arguments: ["pageSize=-1", "pageSize=x", "pageToken=x", "endVersionNumber=0", "startTime=x", "endTime=x"])
    func wrongListParametersAreInvalidArguments(query: String) async throws {
        try await ControlFixture.serving { server async throws in
            let reply = try await server.send("GET", path + ":listVersions?" + query)
            #expect(reply.status == 400)
            #expect(try reply.errorStatus == "INVALID_ARGUMENT")
        }
    }

    @Test(arguments: [
        ("", #"{"versionNumber":"1"}"#), ("", #"{"version_number":1}"#), ("?versionNumber=1", ""),
        ("?version_number=1", "{}"),
    ])
    func aRollbackMakesANewVersionOfOldContent(query: String, body: String) async throws {
        try await ControlFixture.serving { server async throws in
            try await server.publish("one")
            try await server.publish("two")
            let reply = try await server.send("POST", path + ":rollback" + query, body: Array(body.utf8))
            #expect(reply.status == 200)
            #expect(reply.headers["etag"] == "etag-123456789012-3")
            let json = try reply.json
            #expect(json["parameters"]?["greeting"]?["defaultValue"]?["value"]?.string == "one")
            #expect(json["version"]?["updateType"]?.string == "ROLLBACK")
            #expect(json["version"]?["rollbackSource"]?.string == "1")
            #expect(json["version"]?["description"]?.string == "Rollback to version 1")
        }
    }

    @Test(arguments: [
        (#"{"versionNumber":"9"}"#, 404), ("", 400), ("{}", 400), (#"{"versionNumber":"x"}"#, 400), ("[", 400),
    ])
    func aRollbackToNothingIsRefused(body: String, status: Int) async throws {
        try await ControlFixture.serving { server async throws in
            try await server.publish("one")
            try await server.publish("two")
            let reply = try await server.send("POST", path + ":rollback", body: Array(body.utf8))
            #expect(reply.status == status)
            #expect(server.store.head() == 2)
        }
    }

    @Test func defaultsCanBeDownloadedInThreeFormats() async throws {
        try await ControlFixture.serving { server async throws in
            try await server.publish("a<b")
            let xml = try await server.send("GET", path + ":downloadDefaults?format=XML")
            #expect(xml.text.contains("<entry><key>greeting</key><value>a&lt;b</value></entry>"))
            #expect(xml.headers["etag"] == "etag-123456789012-1")
            let json = try await server.send("GET", path + ":downloadDefaults?format=JSON")
            #expect(try json.json == ["greeting": "a<b"])
            let plist = try await server.send("GET", path + ":downloadDefaults?format=PLIST")
            #expect(plist.text.contains("<key>greeting</key>"))
            #expect(try await server.send("GET", path + ":downloadDefaults").status == 400)
            #expect(try await server.send("GET", path + ":downloadDefaults?format=CSV").status == 400)
        }
    }
}
