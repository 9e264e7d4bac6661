package import NIOSSL
import StalecastWire

/// Time in which a certificate chain is valid, and its judgement: the log, `/status`, `doctor` and `check-config` share it.
package struct CertificateTerm: Sendable, Hashable {
    /// Verdict on a moment, as the rest of a sentence that begins with the certificate's name.
    package enum Judgement: Sendable, Hashable {
        case good
        /// The chain is valid, and ends within ``CertificateTerm/warnsBelow`` seconds.
        case ending(String)
        /// Clients refuse the chain: it has expired, or is not valid yet.
        case invalid(String)

        package var sentence: String? {
            switch self {
            case .good: nil
            case .ending(let sentence), .invalid(let sentence): sentence
            }
        }
    }

    /// Seconds since 1970 from which the whole chain is valid.
    package let notBefore: Int
    /// Seconds since 1970 at which the first certificate of the chain to expire does.
    package let notAfter: Int

    package init(notBefore: Int = .min, notAfter: Int) {
        (self.notBefore, self.notAfter) = (notBefore, notAfter)
    }

    package init(_ chain: [NIOSSLCertificate]) {
        self.init(
            notBefore: chain.map { Int($0.notValidBefore) }.max() ?? 0,
            notAfter: chain.map { Int($0.notValidAfter) }.min() ?? 0)
    }

    /// Renewals come 30 days before the end of a certificate for 90; one that has two weeks left was forgotten.
    package static let warnsBelow = 14 * 86_400

    /// - Parameter now: seconds since 1970.
    package func judgement(at now: Int) -> Judgement {
        if now >= notAfter {
            return .invalid("has expired \(Self.spelled(now - notAfter)) ago, at \(Self.date(notAfter))")
        }
        if now < notBefore {
            return .invalid(
                "is not valid for another \(Self.spelled(notBefore - now)), until \(Self.date(notBefore)): "
                    + "is this machine's clock right?")
        }
        let left = notAfter - now
        return left < Self.warnsBelow ? .ending("expires in \(Self.spelled(left)), at \(Self.date(notAfter))") : .good
    }

    /// A time from two of a unit on in that: `2 days`, `47 hours`, `100 seconds`.
    package static func spelled(_ seconds: Int) -> String {
        let units = [(86_400, "days"), (3600, "hours"), (60, "minutes")]
        let (length, name) = units.first { seconds >= 2 * $0.0 } ?? (1, "seconds")
        return "\(seconds / length) \(name)"
    }

    /// The moment in UTC, to the second: `2026-11-27T01:30:00Z`.
    private static func date(_ seconds: Int) -> String {
        let (microseconds, overflows) = Int64(clamping: seconds).multipliedReportingOverflow(by: 1_000_000)
        return overflows ? "no date" : Timestamp(microseconds: microseconds).description.prefix(19) + "Z"
    }
}
