import StalecastAccess
import StalecastWire
import Testing

@Suite struct CertificateTests {
    private let clock = MovedClock()
    private let authorizer: Authorizer
    private static let watch = Grant(actions: [.watch])

    init() {
        authorizer = Authorizer(clock: { [clock] in clock.now })
        authorizer.configure(
            keys: [], plain: [], anonymous: [],
            certificates: [.init(name: Glob("spiffe://a.example/ns/*"), grant: Self.watch)])
    }

    private func shown(_ uris: [String], _ dnsNames: [String] = [], seconds: Int = 60) -> Credentials {
        var credentials = Credentials()
        credentials.certificate = ClientCertificate(
            digest: SecretDigest(of: "\(uris)\(dnsNames)"), uris: uris, dnsNames: dnsNames,
            expiresAt: clock.now.advanced(by: .seconds(seconds)))
        return credentials
    }

    @Test func aCertificateIsGoodUntilItEnds() throws {
        let credentials = shown(["spiffe://a.example/ns/x"])
        let principal = try authorizer.admit(credentials, at: .edge)
        #expect(principal.kind == .certificate && principal.id == "spiffe://a.example/ns/x" && principal.number < 0)
        #expect(try authorizer.admit(credentials, at: .edge) == principal)
        #expect(authorizer.currentPrincipal(of: principal.number) == principal)
        clock.advance(by: .seconds(60))
        #expect(authorizer.denial(credentials) == .expired)
        #expect(authorizer.currentPrincipal(of: principal.number) == nil)
    }

    @Test func aRuleThatGoesTakesItsStreamsAlong() throws {
        let number = try authorizer.admit(shown(["spiffe://a.example/ns/x"]), at: .edge).number
        authorizer.configure(keys: [], plain: [], anonymous: [])
        #expect(authorizer.currentPrincipal(of: number) == nil)
        #expect(!authorizer.takesCertificates)
    }

    @Test(arguments: [
        ["spiffe://a.example/ns/x", "spiffe://a.example/ns/y"], ["SPIFFE://a.example/ns/x"], ["https://a.example/ns/x"],
        ["spiffe://a.example/ns/%78"], ["spiffe://b.example/ns/x"], [],
    ])
    func certificatesOfNoKnownNameAreAnonymous(_ uris: [String]) throws {
        #expect(authorizer.denial(shown(uris, ["spiffe://a.example/ns/x", "a.example"]), at: .control) == .missing)
        #expect(try authorizer.admit(shown(uris), at: .edge).kind == .anonymous)
    }

    @Test func aCredentialOfTheRequestGoesFirst() {
        var credentials = shown(["spiffe://a.example/ns/x"])
        credentials.apiKey = "nonsense"
        #expect(authorizer.denial(credentials) == .unknown)
    }

    @Test func oldOnesMakeRoom() throws {
        let first = try authorizer.admit(shown(["spiffe://a.example/ns/first"]), at: .edge).number
        for number in 0..<65_536 { _ = try authorizer.admit(shown(["spiffe://a.example/ns/\(number)"]), at: .edge) }
        #expect(authorizer.currentPrincipal(of: first) == nil)
        #expect(authorizer.currentPrincipal(of: first - 1) != nil)
    }
}
