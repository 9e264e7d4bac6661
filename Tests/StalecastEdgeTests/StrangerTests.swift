import Foundation
import StalecastHTTP
import CLinux
import Glibc
import StalecastEdge
import StalecastTestSupport
import StalecastWire
import Testing

/// Tests what a client without any credential can do to Edge, and what it must not cost.
@Suite(.serialized, .timeLimit(.minutes(5))) struct StrangerTests {
    /// 4,356 names took 160 ms when each was compared with all before it: four times as many, sixteen times as long.
    @Test func moreTopicsThanAllowedAreRefusedBeforeAnyIsCompared() throws {
        func query(_ count: Int) -> [UInt8] {
            let names = (0..<count).map { "a_topic_name_of_some_length_\($0)" }.joined(separator: ",")
            return Array("topic=\(names)".utf8)
        }
        func read(_ query: [UInt8]) throws {
            _ = try StreamRequest(kind: .events, query: query, headers: StreamHeaders(), maxTopics: 64)
        }
        #expect(throws: GoogleError(400, "at most 64 topics on one stream")) { try read(query(4356)) }
        try expectLinear(upTo: 4356, query, read)
    }

    @Test func repeatedNamesCountToo() throws {
        let query = Array(String(repeating: "topic=a&", count: 65).utf8)
        #expect(throws: GoogleError.self) {
            try StreamRequest(kind: .events, query: query, headers: StreamHeaders(), maxTopics: 64)
        }
        let request = try StreamRequest(
            kind: .events, query: query.dropLast(8), headers: StreamHeaders(), maxTopics: 64)
        #expect(request.topics.map(\.description) == ["a"])
    }

    @Test(arguments: [true, false])
    func pollsOfClientsThatAreGoneAreNotHeld(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine) { live in
            for _ in 0..<100 {
                let client = RawClient(port: live.port)
                // Request and end in one segment: they come as one event.
                client.send("GET /v1/poll?topic=PUSH_RC&wait=600s HTTP/1.1\r\nHost: a\r\n\r\n", more: true)
                client.close()
            }
            try await live.wait { $0.accepted == 100 && $0.polls == 0 && live.edge.connections == 0 }
        }
    }

    @Test(arguments: [true, false])
    func streamsOfClientsThatEndedWithTheirRequestAreNotHeld(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine) { live in
            let clients = (0..<50).map { _ in
                let client = RawClient(port: live.port)
                client.send("GET /v1/events?topic=PUSH_RC HTTP/1.1\r\nHost: a\r\n\r\n", more: true)
                shutdown(client.fd, Int32(SHUT_WR))
                return client
            }
            // Long before a heartbeat would find out.
            try await live.wait { $0.accepted == 50 && $0.streams == 0 && live.edge.connections == 0 }
            withExtendedLifetime(clients) {}
        }
    }

    @Test func aCapThatAReloadSetsCountsTheConnectionsThatAreOpen() {
        let ledger = AddressLedger()
        var settings = EdgeSettings()
        settings.caps.connectionsPerAddress = 0
        for _ in 0..<10 { #expect(ledger.enter(9, caps: settings.caps) == .admitted) }
        settings.caps.connectionsPerAddress = 5
        #expect(ledger.enter(9, caps: settings.caps) == .overAddress)
        for _ in 0..<7 { ledger.leave(9) }
        #expect(ledger.enter(9, caps: settings.caps) == .admitted)
        #expect(ledger.enter(9, caps: settings.caps) == .overAddress)
    }

    @Test(arguments: [true, false])
    func aWithdrawnKeyEndsTheStreamsThatShowedIt(engine: Bool) async throws {
        var settings = EdgeSettings()
        try await LiveEdge.with(engine: engine, { settings = $0 }) { live in
            let anonymous = try live.stream()
            let (first, second) = (try live.stream("topic=PUSH_RC&key=one"), try live.stream("topic=PUSH_RC&key=two"))
            settings.apiKeys = ["one", "two"]
            live.edge.apply(settings)
            #expect(try anonymous.readToEnd().contains("revoked"))
            live.publish()
            for client in [first, second] { try client.read(untilVersion: 1) }
            settings.apiKeys = ["two"]
            live.edge.apply(settings)
            #expect(try first.readToEnd().contains("revoked"))
            try second.read(untilVersion: live.publish())
        }
    }

    @Test(arguments: [true, false])
    func aStopAnswersTheRequestThatHasBegun(engine: Bool) async throws {
        // One loop serves both, so the end of the idle connection says that the other one was told too.
        try await LiveEdge.with(engine: engine, threads: 1) { live in
            let (idle, busy) = (RawClient(port: live.port), RawClient(port: live.port))
            idle.get("/healthz")
            try idle.read(untilText: "200 OK")
            let body = FetchBodies.js
            busy.send(
                "POST /v1/projects/demo/namespaces/firebase:fetch HTTP/1.1\r\nHost: a\r\n"
                    + "Content-Length: \(body.utf8.count)\r\n\r\n" + String(body.prefix(20)))
            // A client that connected later has its answer: then the engine has seen the beginning of the fetch.
            let after = RawClient(port: live.port)
            after.get("/v1/poll?topic=PUSH_RC&wait=0s")
            try after.read(untilText: "200 OK")
            after.close()
            // The engine keeps no beginning of another request.
            let late = engine ? nil : RawClient(port: live.port)
            // A request comes first, whose answer shows that the head behind it was read.
            late?.send("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET /v1/events?topic=PUSH_RC HTTP/1.1\r\nHo")
            try late?.read(untilText: "200 OK")
            try await live.wait {
                live.edge.connections == (engine ? 2 : 3) && $0.handedOver == (engine ? 1 : 0)
            }
            idle.forget()
            idle.get("/healthz")
            try idle.read(untilText: "200 OK")
            async let drained: Void = live.edge.drain(over: .seconds(5))
            // Without blocking: the stop needs a thread of the same pool.
            try await live.wait {
                idle.readSome(milliseconds: 0)
                return idle.isEnded && $0.handedOver == (engine ? 2 : 0)
            }
            busy.send(String(body.dropFirst(20)))
            let answer = try busy.readToEnd()
            #expect(answer.contains("200 OK") && answer.contains("Connection: close") && answer.contains("NO_TEMPLATE"))
            late?.send("st: a\r\n\r\n")
            if let late {
                let refused = try late.readToEnd()
                #expect(refused.contains("retry: ") && !refused.contains("synced"))
            }
            await drained
        }
    }

    @Test(arguments: [true, false])
    func aClientThatSendsOnItsStreamHarmsNoOther(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine) { live in
            let client = try live.stream()
            for _ in 0..<64 { client.sendSome(String(repeating: "x", count: 1 << 16)) }
            let calm = try live.stream()
            live.publish()
            try calm.read(untilVersion: 1)
            if engine { try client.read(untilVersion: 1) }
        }
    }

    /// Counts IPv4 clients on a dual-stack listener, where they appear as `::ffff:a.b.c.d`.
    @Test func clientsAreCountedByAddressOnADualStackListenerToo() {
        #expect(Self.key("::ffff:192.0.2.1") == Self.key("192.0.2.1"))
        #expect(Self.key("::ffff:192.0.2.1") != Self.key("::ffff:192.0.2.2"))
        #expect(Self.key("::1") != Self.key("::ffff:127.0.0.1") && Self.key("::1") != Self.key("::2"))
        #expect(Self.key("2001:db8::1") == Self.key("2001:db8::ffff:2"), "one host has a whole /64")
        #expect(Self.key("2001:db8::1") != Self.key("2001:db8:0:1::1"))
    }

    private static func key(_ text: String) -> UInt64 {
        var (v4, v6) = (sockaddr_in(), sockaddr_in6())
        if inet_pton(AF_INET, text, &v4.sin_addr) == 1 {
            v4.sin_family = sa_family_t(AF_INET)
            return stalecast_address_key(&v4)
        }
        precondition(inet_pton(AF_INET6, text, &v6.sin6_addr) == 1)
        v6.sin6_family = sa_family_t(AF_INET6)
        return stalecast_address_key(&v6)
    }

    /// `TCP_USER_TIMEOUT` cut readers that the new limit allows.
    @Test func aReloadedWriteStallLimitHoldsForTheKernelToo() async throws {
        try await LiveEdge.with(engine: true, threads: 1, { $0.connections.writeStallLimit = .seconds(15) }) { live in
            let before = try live.stream()
            #expect(before.serverUserTimeoutMs == 30_000)
            var settings = EdgeSettings()
            settings.connections.writeStallLimit = .seconds(120)
            live.edge.apply(settings)
            try await live.wait { _ in before.serverUserTimeoutMs == 135_000 }
            let after = try live.stream()
            #expect([before, after].map(\.serverUserTimeoutMs) == [135_000, 135_000])
        }
    }
}

extension RawClient {
    /// - Parameter more: the segment waits for what follows, as the connection's end.
    func send(_ text: String, more: Bool) {
        let bytes = Array(text.utf8)
        _ = Glibc.send(fd, bytes, bytes.count, Int32(MSG_NOSIGNAL) | (more ? Int32(MSG_MORE) : 0))
    }

    /// Value of `TCP_USER_TIMEOUT` at the server's end of this connection, which is in this process too.
    var serverUserTimeoutMs: UInt32? {
        let (own, server) = (Self.port(of: fd, getsockname), Self.port(of: fd, getpeername))
        // However many descriptors other tests hold.
        let open = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
        for candidate in open.compactMap({ Int32($0) }) {
            // Both ends: a connection of another test to another server may have the client's port.
            guard let peer = Self.port(of: candidate, getpeername), peer == own,
                Self.port(of: candidate, getsockname) == server
            else { continue }
            var (timeout, size): (UInt32, socklen_t) = (0, 4)
            getsockopt(candidate, Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, &timeout, &size)
            return timeout
        }
        return nil
    }

    private typealias Name = (Int32, UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int32

    /// The port of one end of an IPv4 connection; nil for any other descriptor.
    private static func port(of descriptor: Int32, _ name: Name) -> UInt16? {
        var (address, length) = (sockaddr_in(), socklen_t(MemoryLayout<sockaddr_in>.size))
        let result = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { name(descriptor, $0, &length) }
        }
        return result == 0 && address.sin_family == sa_family_t(AF_INET) ? address.sin_port : nil
    }
}
