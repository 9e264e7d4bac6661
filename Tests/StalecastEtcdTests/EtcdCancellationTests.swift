import NIOPosix
import StalecastEtcd
import StalecastRecords
import StalecastTestSupport
import Testing

/// Calls whose task is cancelled: they end at once, and leave nothing behind. Needs no etcd.
@Suite(.timeLimit(.minutes(5))) struct EtcdCancellationTests {
    /// Time limits are far beyond that of the test: what ends is ended by the cancellation.
    private func client(
        _ member: SilentMember, _ change: (inout EtcdConfiguration) -> Void = { _ in }
    ) throws -> EtcdClient {
        var configuration = EtcdConfiguration([member.endpoint])
        configuration.timeout = .seconds(600)
        change(&configuration)
        return try EtcdClient(configuration, on: MultiThreadedEventLoopGroup.singleton)
    }

    /// A call in a task of its own, and the failure that ends it.
    private func call(_ client: EtcdClient) -> Task<EtcdFailure?, Never> {
        Task {
            do throws(EtcdFailure) {
                _ = try await client.range(EtcdRange("/stalecast/k"))
                return nil
            } catch {
                return error
            }
        }
    }

    @Test func itsStreamIsResetAndTheConnectionStays() async throws {
        let member = try await SilentMember()
        let client = try client(member)
        // The first one opens the connection; several at once would open some too many, and close them.
        let first = call(client)
        try await eventually { member.figures.openStreams == 1 }
        let calls = [first] + (1..<20).map { _ in call(client) }
        try await eventually { member.figures.openStreams == 20 }
        for call in calls.dropLast() { call.cancel() }
        for call in calls.dropLast() { #expect(await call.value == .cancelled(isSent: true)) }
        try await eventually { member.figures.openStreams == 1 }
        let last = call(client)
        try await eventually { member.figures.openStreams == 2 }
        #expect(member.figures.openConnections == 1, "calls of others go on over it")
        #expect(client.figures.moves == 0, "a cancelled call says nothing about the member")
        #expect(client.figures.calls[.other]?.outcomes == [:], "nor does it count")
        for call in [last, calls[19]] {
            call.cancel()
            #expect(await call.value == .cancelled(isSent: true))
        }
        client.close()
        try await eventually { member.figures.openConnections == 0 }
        member.end()
    }

    @Test func oneThatIsCancelledBeforeSendsNothing() async throws {
        let member = try await SilentMember()
        let client = try client(member)
        let open = call(client)
        try await eventually { member.figures.calls.count == 1 }
        let late = Task {
            await untilCancelled()
            return await call(client, isCancelled: Task.isCancelled)
        }
        late.cancel()
        #expect(await late.value == .cancelled(isSent: false))
        #expect(member.figures.calls.count == 1)
        open.cancel()
        _ = await open.value
        client.close()
        member.end()
    }

    /// Calls in the caller's task.
    private func call(_ client: EtcdClient, isCancelled: Bool) async -> EtcdFailure? {
        #expect(isCancelled)
        do throws(EtcdFailure) {
            _ = try await client.grantLease(.seconds(5))
            return nil
        } catch {
            #expect(error.isCertain)
            return error
        }
    }

    @Test func aConnectionThatIsNotThereYetIsClosed() async throws {
        let member = try await SilentMember(greets: false)
        let client = try client(member)
        let call = call(client)
        try await eventually { member.figures.openConnections == 1 }
        call.cancel()
        #expect(await call.value == .cancelled(isSent: false))
        try await eventually { member.figures.openConnections == 0 }
        #expect(client.figures.moves == 0)
        member.end()
    }

    @Test func aSignInGoesOnForTheOthers() async throws {
        let member = try await SilentMember()
        let client = try client(member) { $0.credentials = ("u", { "p" }) }
        let (first, second) = (call(client), call(client))
        try await eventually { member.figures.calls.count == 1 }
        first.cancel()
        #expect(await first.value == .cancelled(isSent: false))
        member.signIn(with: "t")
        try await eventually { member.figures.calls.last == "/etcdserverpb.KV/Range" }
        #expect(client.figures.calls[.signIn]?.outcomes == [.ok: 1])
        second.cancel()
        #expect(await second.value == .cancelled(isSent: true))
        try await eventually { member.figures.openStreams == 0 }
        client.close()
        member.end()
    }

    /// A watch and a status have a connection of their own, over which a sign-in for all may go.
    @Test func aSignInGoesOnWithoutTheOneWhoseConnectionItHas() async throws {
        let member = try await SilentMember()
        let client = try client(member) { $0.credentials = ("u", { "p" }) }
        let status = Task { try await client.status(of: 0) }
        try await eventually { member.figures.calls == ["/etcdserverpb.Auth/Authenticate"] }
        let other = call(client)
        try await eventually { member.figures.openConnections == 2 }
        status.cancel()
        await #expect(throws: EtcdFailure.cancelled(isSent: false)) { try await status.value }
        #expect(member.figures.openConnections == 2)
        member.signIn(with: "t")
        try await eventually { member.figures.calls.last == "/etcdserverpb.KV/Range" }
        #expect(client.figures.calls[.signIn]?.outcomes == [.ok: 1] && client.figures.moves == 0)
        try await eventually { member.figures.openConnections == 1 }
        other.cancel()
        #expect(await other.value == .cancelled(isSent: true))
        client.close()
        member.end()
    }

    @Test func aWatchEndsWithItsReader() async throws {
        let member = try await SilentMember()
        let records = EtcdRecords(try client(member), cluster: "c")
        let reader = Task {
            do throws(LogError) { for await _ in try await records.watch() {} } catch { Issue.record("\(error)") }
        }
        try await eventually { member.figures.openStreams == 1 }
        reader.cancel()
        await reader.value
        try await eventually { member.figures.openConnections == 0 }
        member.end()
    }
}
