import StalecastOutbound

/// What came of a request, as the owner of its URL may know it.
struct AttemptResult: Sendable, Hashable {
    /// Nil without an answer.
    var status: Int?
    /// `2xx`…`5xx`, or why there was no answer.
    var name: String
    /// What went wrong; nil for success.
    var problem: String?
    /// The start of the answer's body.
    var response = ""

    /// Of a request that could not be made.
    init(_ problem: AttemptProblem) {
        name = problem.reason.rawValue
        self.problem = problem.description
    }

    init(_ outcome: OutboundOutcome) {
        switch outcome.result {
        case .answered(let code, let headers, let body, _):
            status = code
            name = outcome.result.className
            response = String(decoding: body.prefix(DeliveryAttempt.maxResponseBytes), as: UTF8.self)
            switch code {
            case 200..<300: break
            case 300..<400:
                let target = headers["location"].map { "; it points to \($0.prefix(200))" } ?? ""
                problem = "redirects are not followed\(target)"
            default: problem = "status \(code)"
            }
        case .failed(let failure):
            name = failure.publicName
            problem = failure.ownerText
        }
    }
}

extension OutboundFailure {
    /// As the owner of the URL sees it: nothing that tells an open port from a closed one.
    fileprivate var publicName: String {
        switch reason {
        case .connectTimeout, .refused, .unreachable, .blocked, .reset: "no_connection"
        default: reason.rawValue
        }
    }
}
