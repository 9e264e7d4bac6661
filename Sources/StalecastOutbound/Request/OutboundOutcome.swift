/// Outcome of a request.
package struct OutboundOutcome: Sendable {
    package enum Result: Sendable {
        /// - headers: those wanted, names in lower case; of several with one name the last.
        case answered(status: Int, headers: [String: String], body: [UInt8], truncated: Bool)
        case failed(OutboundFailure)
    }

    package var result: Result
    package var phases: OutboundOutcome.Phases
    /// True when no new connection was made.
    package var reusedConnection: Bool
    /// The address of the peer, for the operator's log; empty for an answer, and when none was reached.
    package var remoteAddress: String

    package init(
        result: Result, phases: OutboundOutcome.Phases = OutboundOutcome.Phases(), reusedConnection: Bool = false,
        remoteAddress: String = ""
    ) {
        self.result = result
        self.phases = phases
        self.reusedConnection = reusedConnection
        self.remoteAddress = remoteAddress
    }
}

extension OutboundOutcome {
    /// Times of a request's parts, in microseconds; 0 for a part that was not needed.
    package struct Phases: Sendable, Hashable {
        /// Waiting for a place.
        package var queue: Int64 = 0
        package var dns: Int64 = 0
        package var connect: Int64 = 0
        package var tls: Int64 = 0
        /// Time from the request sent to the first byte of the answer.
        package var server: Int64 = 0
        /// Everything, without the queue.
        package var total: Int64 = 0

        package init() {}
    }
}

/// Reason why there is no answer.
package struct OutboundFailure: Error, Sendable, Hashable, CustomStringConvertible {
    /// Spelled as in metrics and in the attempt log.
    package enum Reason: String, Sendable, CaseIterable {
        case dnsTimeout = "timeout_dns"
        case connectTimeout = "timeout_connect"
        case tlsTimeout = "timeout_tls"
        case responseTimeout = "timeout_response"
        case dns, refused, reset, unreachable
        case tlsVerify = "tls_verify"
        case tls, blocked
        case tooLarge = "too_large"
        case badAnswer = "bad_answer"
        case cancelled, other
    }

    package let reason: Reason
    /// Detail for the operator's log: names addresses and libcurl's words.
    package let detail: String

    package init(_ reason: Reason, detail: String = "") {
        self.reason = reason
        self.detail = detail
    }

    /// Text for the owner of the URL: coarse enough not to tell an open port from a closed one.
    package var ownerText: String {
        switch reason {
        case .dnsTimeout, .dns: "the host name could not be resolved"
        case .connectTimeout, .refused, .unreachable, .blocked, .reset: "no connection to the host could be used"
        case .tlsTimeout, .tls, .tlsVerify: "TLS could not be established; check the certificate"
        case .responseTimeout: "no complete answer within the time limit"
        case .tooLarge: "the answer was too long"
        case .badAnswer: "the answer was not HTTP"
        case .cancelled: "the request was cancelled"
        case .other: "the request failed"
        }
    }

    package var description: String { detail.isEmpty ? ownerText : "\(ownerText) (\(reason.rawValue): \(detail))" }
}
