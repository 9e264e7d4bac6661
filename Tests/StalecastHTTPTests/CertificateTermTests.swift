import StalecastHTTP
import Testing

@Suite("Judgement of a certificate's dates")
struct CertificateTermTests {
    private static let day = 86_400
    /// 2026-11-26T07:00:00Z to 90 days later.
    private let term = CertificateTerm(notBefore: 1_795_676_400, notAfter: 1_795_676_400 + 90 * Self.day)

    @Test func theMiddleIsGood() {
        #expect(term.judgement(at: term.notBefore) == .good)
        #expect(term.judgement(at: term.notAfter - 14 * Self.day) == .good)
    }

    @Test func twoWeeksBeforeItsEndItIsRemarked() {
        let judgement = term.judgement(at: term.notAfter - 14 * Self.day + 1)
        #expect(judgement == .ending("expires in 13 days, at 2027-02-24T07:00:00Z"))
        #expect(term.judgement(at: term.notAfter - 1) == .ending("expires in 1 seconds, at 2027-02-24T07:00:00Z"))
    }

    @Test func outsideItsTimeClientsRefuseIt() {
        #expect(term.judgement(at: term.notAfter) == .invalid("has expired 0 seconds ago, at 2027-02-24T07:00:00Z"))
        let early = term.judgement(at: term.notBefore - 3 * Self.day)
        #expect(early.sentence?.hasPrefix("is not valid for another 3 days, until 2026-11-26T07:00:00Z") == true)
        guard case .invalid = early else {
            Issue.record("a certificate that is not valid yet is refused")
            return
        }
    }
}
