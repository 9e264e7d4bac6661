import Foundation
import StalecastClient
import StalecastTestServers
import StalecastWire
import Testing

/// Registration with Firebase Installations, against a server that behaves as Google's does.
@Suite struct InstallationTests {
    private let clock = TestClock()
    private static let content = #"{"entries":{"a":"1"},"state":"UPDATE","templateVersion":"1"}"#

    private func app(
        _ server: ScriptedTransport, directory: URL = scratchDirectory()
    ) -> StalecastApp {
        StalecastApp.test(server, clock: clock, directory: directory) { options in
            options.server = .firebase(.google)
            options.apiKey = "k"
            options.project = "p"
        }
    }

    private static func grant(_ token: String) -> String { #"{"token":"\#(token)","expiresIn":"604800s"}"# }

    private static func registration(_ fid: String, _ token: String) -> TransportResponse {
        .json(#"{"fid":"\#(fid)","refreshToken":"refresh","authToken":\#(grant(token))}"#)
    }

    @Test func anInstallationIsRegisteredOnceAndRenewedBeforeItsEnd() async throws {
        let fid = "cAbCdEfGhIjKlMnOpQrStU"
        let server = ScriptedTransport { request, _ in
            switch request.url.path {
            case "/v1/projects/p/installations": Self.registration(fid, "t1")
            case "/v1/projects/p/installations/\(fid)/authTokens:generate": .json(Self.grant("t2"))
            default: .json(Self.content)
            }
        }
        let directory = scratchDirectory()
        let app = app(server, directory: directory)
        try await app.config.fetch(withExpirationDuration: 0)
        #expect(app.appInstanceID == fid, "the server's id is adopted")
        #expect(server.received.last?.headers["X-Goog-Firebase-Installations-Auth"] == "t1")
        #expect(server.received.first?.headers["x-goog-api-key"] == "k")
        clock.advance(by: 604800 - 3601)
        let reborn = self.app(server, directory: directory)
        try await reborn.config.fetch(withExpirationDuration: 0)
        #expect(server.received.count == 3, "no new registration, no renewal yet")
        clock.advance(by: 2)
        try await reborn.config.fetch(withExpirationDuration: 0)
        #expect(server.received.count == 5)
        #expect(try server.received[required: 3].headers["Authorization"] == "FIS_v2 refresh")
        #expect(try server.received[required: 4].headers["X-Goog-Firebase-Installations-Auth"] == "t2")
        let body = try #require(try server.received[required: 4].body)
        #expect(try JSONValue.parse(body)["appInstanceId"]?.string == fid)
    }

    @Test(arguments: [401, 404]) func anUnknownInstallationIsMadeAnew(status: Int) async throws {
        let server = ScriptedTransport { request, before in
            if request.url.path.hasSuffix("authTokens:generate") { return .json("{}", status: status) }
            guard request.url.path.hasSuffix("/installations") else { return .json(Self.content) }
            let fid = try JSONValue.parse(request.body!)["fid"]!.string!
            return Self.registration(fid, "t\(before)")
        }
        let app = app(server)
        try await app.config.fetch(withExpirationDuration: 0)
        let first = app.appInstanceID
        clock.advance(by: 604800)
        try await app.config.fetch(withExpirationDuration: 0)
        #expect(app.appInstanceID != first)
    }

    @Test func withoutRegistrationThereIsNoFetch() async throws {
        let server = ScriptedTransport { _, _ in
            .json(#"{"error":{"code":403,"message":"key is not allowed"}}"#, status: 403)
        }
        let error = await #expect(throws: RemoteConfigError.self) { try await app(server).config.fetch() }
        #expect(error?.httpStatus == 403)
        #expect(error?.message.contains("key is not allowed") == true)
        #expect(server.received.count == 1)
    }

    @Test func stalecastNeedsNoRegistration() async throws {
        let server = ScriptedTransport { _, _ in .json(Self.content) }
        try await StalecastApp.test(server).config.fetch()
        #expect(server.received.map(\.url.path) == ["/v1/projects/demo/namespaces/firebase:fetch"])
    }

    @Test func aFetchThatChangesNothingWritesNothing() async throws {
        let server = ScriptedTransport { request, _ in
            request.url.path.hasSuffix("installations")
                ? Self.registration("cAbCdEfGhIjKlMnOpQrStU", "t1") : .json(Self.content)
        }
        let directory = scratchDirectory()
        let app = app(server, directory: directory)
        let file = directory.appendingPathComponent("test@installation").path
        for isFirst in [true, false] {
            try await app.config.fetch(withExpirationDuration: 0)
            try await PushMessaging.messaging(app: app).unsubscribe(fromTopic: "none")
            #expect(FileManager.default.fileExists(atPath: file) == isFirst)
            if isFirst { try FileManager.default.removeItem(atPath: file) }
        }
    }
}
