import Foundation
import NIOPosix
import StalecastEtcd
import StalecastTestServers
import StalecastTestSupport
import Synchronization
import Testing

/// The ways to a member: TLS, certificates, passwords, members that are not there or stand still, and what is said of
/// each. What it cannot show: networks that swallow packets.
@Suite(.serialized, .enabled(if: Members.program != nil, "\(Members.advice)"))
struct EtcdClientTests {
    private func client(
        _ endpoints: [String], _ change: (inout EtcdConfiguration) -> Void = { _ in }
    ) throws -> EtcdClient {
        var configuration = EtcdConfiguration(endpoints.compactMap { EtcdEndpoint($0) })
        change(&configuration)
        return try EtcdClient(configuration, on: MultiThreadedEventLoopGroup.singleton)
    }

    private func put(_ client: EtcdClient) async throws(EtcdFailure) {
        _ = try await client.transact(EtcdTransaction(then: [.put("/stalecast/k", Array("v".utf8))]))
    }

    /// Calls until it succeeds: members elect a leader first.
    private func whenReady(_ client: EtcdClient) async throws {
        while true {
            do throws(EtcdFailure) { return try await put(client) } catch {
                try await Task.sleep(for: .milliseconds(50))
            }
        }
    }

    /// Problem that a client reports which cannot put.
    private func problem(_ client: EtcdClient) async -> String {
        defer { client.close() }
        do throws(EtcdFailure) { try await put(client) } catch {
            #expect(error.isCertain, "\(error)")
            return error.description
        }
        return "none"
    }

    @Test(.timeLimit(.minutes(5))) func tlsTellsWhatIsWrong() async throws {
        let certificates = try TestCertificates(address: "127.77.11.1")
        let members = try Members(1, network: 11, certificates: certificates)
        let tls = EtcdTLS(authorities: certificates.file("ca.pem"))
        let client = try client(members.endpoints) { $0.tls = tls }
        defer { client.close() }
        try await whenReady(client)
        #expect(try await client.status(of: 0).leader != 0)

        let stranger = try self.client(members.endpoints) { $0.tls.authorities = certificates.file("stranger.pem") }
        #expect(await problem(stranger).contains("look at the CA file"))
        let plain = try self.client(["http://127.77.11.1:2379"])
        #expect(await problem(plain).contains("https"))
        #expect { try self.client(members.endpoints) { $0.tls.authorities = certificates.file("none.pem") } } throws: {
            "\($0)".contains("none.pem cannot be used")
        }
    }

    @Test(.timeLimit(.minutes(5))) func certificatesAreReadAgain() async throws {
        let certificates = try TestCertificates(address: "127.77.12.1")
        let members = try Members(1, network: 12, certificates: certificates, asksForCertificate: true)
        let without = try client(members.endpoints) { $0.tls.authorities = certificates.file("ca.pem") }
        // Certificate and key of a stranger, then those of a client in their place.
        try certificates.copy("stranger.pem", to: "used.pem")
        try certificates.copy("stranger.key", to: "used.key")
        let client = try client(members.endpoints) {
            $0.tls = EtcdTLS(
                authorities: certificates.file("ca.pem"),
                certificate: (certificates.file("used.pem"), certificates.file("used.key")))
        }
        try await eventually { await problem(client).contains("our certificate") }
        try certificates.copy("client.pem", to: "used.pem")
        try certificates.copy("client.key", to: "used.key")
        try await whenReady(client)
        #expect(await problem(without).contains("certificate"))
        client.close()
    }

    @Test(.timeLimit(.minutes(5))) func plainMembersAreNoTLS() async throws {
        let members = try Members(1, network: 13)
        try await whenReady(client(members.endpoints))
        let tls = await problem(try client(["https://127.77.13.1:2379"]))
        #expect(tls.contains("should be http"), "\(tls)")
        let nobody = await problem(try client(["http://127.77.13.9:2379", "http://127.77.13.8:2379"]))
        #expect(nobody.contains("http://127.77.13.9:2379") && nobody.contains("refused"))
        let unknown = try client(members.endpoints) { $0.credentials = ("root", { "r" }) }
        #expect(await problem(unknown).contains("has no users"))
    }

    @Test(.timeLimit(.minutes(5)), .enabled(if: Members.control != nil)) func passwordsAreAskedFor() async throws {
        let members = try Members(1, network: 14)
        let open = try client(members.endpoints) { $0.timeout = members.configuration.timeout }
        try await whenReady(open)
        for words in [
            ["user", "add", "root:r"], ["user", "grant-role", "root", "root"], ["user", "add", "other:o"],
            ["auth", "enable"],
        ] { try members.control(words) }
        #expect(await problem(open).contains("it has users"))
        let password = Mutex("wrong")
        let client = try client(members.endpoints) {
            $0.credentials = ("root", { password.withLock { $0 } })
            $0.timeout = members.configuration.timeout
        }
        #expect(await problem(client).contains("user and password"))
        try await eachPasswordIsTriedOnceASecond(client)
        password.withLock { $0 = "r" }
        try await eachSignInIsForAll(client)
        let other = try self.client(members.endpoints) { $0.credentials = ("other", { "o" }) }
        #expect(await problem(other).contains("grant"))

        // After a restart no token is known any more.
        members.kill9(0)
        try members.start(0)
        try await whenReady(client)
        client.close()
    }

    private func signIns(_ client: EtcdClient, _ outcome: EtcdFigures.Outcome) -> Int {
        client.figures.calls[.signIn]?.outcomes[outcome] ?? 0
    }

    /// Each costs a member a tenth of a second of its processor.
    private func eachPasswordIsTriedOnceASecond(_ client: EtcdClient) async throws {
        let (before, begin) = (signIns(client, .denied), ContinuousClock.now)
        for _ in 0..<100 { #expect(await problem(client).contains("user and password")) }
        let tried = signIns(client, .denied) - before
        #expect(tried <= 1 + Int((ContinuousClock.now - begin) / .seconds(1)), "\(tried) sign-ins of 100 calls")
    }

    /// Signs in at once with another password, in spite of the pause, and once for all that wait.
    private func eachSignInIsForAll(_ client: EtcdClient) async throws {
        try await withThrowingTaskGroup { calls in
            for _ in 0..<50 { calls.addTask { try await put(client) } }
            try await calls.waitForAll()
        }
        #expect(signIns(client, .ok) == 1)
    }

    @Test(.timeLimit(.minutes(5))) func aStoppedMemberIsNoticed() async throws {
        let members = try Members(3, network: 15)
        let client = try client(members.endpoints) {
            $0.keepAlive = .seconds(1)
            $0.timeout = .seconds(1)
        }
        defer { client.close() }
        try await whenReady(client)
        let ended = Mutex(false)
        var end: @Sendable () -> Void = {}
        // Attempt 1 is the second member. Silence for twice the bound first, 1 + 2 × 1 s: its answers to pings keep it. On a
        // busy machine an answer may be late once; without answers no watch would last as long.
        for again in 0..<5 {
            ended.withLock { $0 = false }
            end = try await client.watch(EtcdRange("/stalecast/k"), attempt: 1, onNotice: { _ in }) {
                ended.withLock { $0 = true }
            }
            for _ in 0..<130 where !ended.withLock({ $0 }) { try await Task.sleep(for: .milliseconds(50)) }
            if !ended.withLock({ $0 }) { break }
            #expect(again < 4, "five watches in turn ended before a member that answers was silent")
        }
        members.signal(SIGSTOP, 1)
        try await eventually { ended.withLock { $0 } }
        await #expect { try await client.status(of: 1) } throws: { "\($0)".contains("says nothing") }
        members.signal(SIGCONT, 1)
        end()
    }

    @Test func versionsAreJudged() throws {
        func suitability(_ version: String, member: Int64 = 5) throws -> EtcdStatus.Suitability {
            var message = ProtobufWriter()
            message.message(1) { $0.number(2, member) }
            message.bytes(2, version.utf8)
            return try EtcdStatus(message.bytes).suitability
        }
        for good in ["3.6.9", "3.6.14", "3.7.1", "3.10.0", "4.0.0"] { #expect(try suitability(good).word == .good) }
        for old in ["3.4.0", "3.4.23", "3.5.30", "3.6.8", "3.6.0-rc.1"] {
            let found = try suitability(old)
            #expect(found.word == .old && found.finding?.contains(old) == true)
        }
        for (refused, member) in [("3.3.27", 5), ("2.3.8", 5), ("", 5), ("3.5.13", 0), ("x.y.z", 5)]
            as [(String, Int64)]
        {
            #expect(try suitability(refused, member: member).word == .refused)
        }
    }
}
