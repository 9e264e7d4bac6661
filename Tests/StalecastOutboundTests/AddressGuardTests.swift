import StalecastOutbound
import StalecastTestServers
import StalecastWire
import Testing

@Suite struct AddressGuardTests {
    /// Loopback, private ranges and metadata services in the spellings of resolvers and URL parsers.
    @Test(arguments: [
        "127.0.0.1", "127.1", "0177.0.0.1", "0x7f.0.0.1", "2130706433", "0x7f000001", "017700000001", "127.0.1",
        "0", "0.0.0.0", "[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]",
        "10.0.0.1", "172.16.0.1", "172.31.255.254", "192.168.0.1", "100.64.0.1", "169.254.169.254", "2852039166",
        "[::ffff:169.254.169.254]", "[64:ff9b::7f00:1]", "[64:ff9b:1::a9fe:a9fe]", "[fe80::1]", "[fec0::1]",
        "[fc00::1]", "[fd00:ec2::254]", "[2002:7f00:1::]", "[2001:0:7f00:1::]", "[ff02::1]", "[2001:db8::1]",
        "192.0.2.1", "198.18.0.1", "198.51.100.7", "203.0.113.9", "224.0.0.1", "255.255.255.255", "168.63.129.16",
        "100.100.100.200", "192.88.99.1", "localhost",
    ])
    func nothingIsSentToAddressesThatAreNotPublic(host: String) async throws {
        try await OriginServer.serving({ _ in .status(204) }) { server in
            try await EngineFixture.running { fixture in
                let request = OutboundRequest(
                    url: try OutboundURL("http://\(host):\(server.port)/"),
                    limits: OutboundLimits(connectTimeout: .seconds(2), timeout: .seconds(2)))
                #expect(await fixture.engine.send(request).failure == .blocked)
                #expect(server.connections == 0)
            }
        }
    }

    @Test(arguments: ["8.8.8.8", "1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "2a00:1450:4001::1"])
    func publicAddressesAreAllowed(text: String) throws {
        let address = try #require(IPAddress(text))
        #expect(AddressPolicy.publicOnly.allows(address))
        #expect(AddressPolicy.publicOnly.allows(address, port: 443))
        #expect(!AddressPolicy.publicOnly.allows(address, port: 25))
    }

    @Test(arguments: [
        ("10.1.2.3", true), ("192.168.1.1", true), ("100.64.0.1", true), ("fd12::1", true), ("127.0.0.1", false),
        ("::1", false), ("169.254.169.254", false), ("fe80::1", false), ("fd00:ec2::254", false),
        ("fd20:ce::254", false),
        ("100.100.100.200", false), ("::ffff:127.0.0.1", false),
    ])
    func theInternalProfileAllowsPrivateNetworksOnly(text: String, isAllowed: Bool) throws {
        #expect(AddressPolicy(profile: .internal).allows(try #require(IPAddress(text))) == isAllowed)
    }

    @Test func aPooledConnectionOfAnotherPolicyIsNotUsed() async throws {
        try await OriginServer.serving({ _ in .status(204) }) { server in
            try await EngineFixture.running { fixture in
                let first = try await fixture.send(server.url)
                #expect(first.status == 204)
                for _ in 1...3 {
                    let outcome = try await fixture.send(server.url) { $0.policy = .publicOnly }
                    #expect(outcome.failure == .blocked)
                }
                #expect(server.requests.count == 1 && server.connections == 1)
            }
        }
    }

    /// `localhost` first resolves to an allowed address; the policy sees what is dialled, not the name.
    @Test func theDialledAddressIsJudgedNotTheName() async throws {
        try await OriginServer.serving({ _ in .status(204) }) { server in
            try await EngineFixture.running { fixture in
                let wide = try await fixture.send("http://localhost:\(server.port)/")
                #expect(wide.status == 204)
                let narrow = try AddressPolicy(allow: [CIDR("127.0.0.2/32")])
                let outcome = try await fixture.send("http://localhost:\(server.port)/") { $0.policy = narrow }
                #expect(outcome.failure == .blocked)
                #expect(server.requests.count == 1)
            }
        }
    }

    @Test func ownersDoNotLearnWhetherAPortIsOpen() {
        let hidden: [OutboundFailure.Reason] = [.refused, .blocked, .unreachable, .connectTimeout, .reset]
        #expect(Set(hidden.map { OutboundFailure($0, detail: "secret").ownerText }).count == 1)
    }

    /// libcurl tries both addresses of `localhost`; only 127.0.0.1 is allowed, and nothing listens there.
    @Test func aHostWithAnAllowedAddressThatRefusesIsNotBlocked() async throws {
        let port = try await OriginServer.serving({ _ in .status(204) }) { $0.port }
        try await EngineFixture.running { fixture in
            let request = OutboundRequest(
                url: try OutboundURL("http://localhost:\(port)/"),
                limits: OutboundLimits(connectTimeout: .seconds(5), timeout: .seconds(5)),
                policy: try AddressPolicy(allow: [CIDR("127.0.0.0/8")]))
            #expect(await fixture.engine.send(request).failure == .refused)
        }
    }
}
