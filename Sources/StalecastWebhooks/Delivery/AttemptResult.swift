import StalecastOutbound
package import StalecastWire

/// Result of a request, as the owner of its URL may know it.
package struct AttemptResult: Sendable, Hashable {
    /// Nil without an answer.
    package var status: Int?
    /// `2xx`…`5xx`, or why there was no answer.
    package var name: String
    /// Reason of the failure; nil for success.
    package var problem: String?
    /// The start of the answer's body, at most ``maxResponseBytes``.
    package var response = ""

    package static let maxResponseBytes = 1024

    package init(status: Int? = nil, name: String, problem: String? = nil, response: String = "") {
        (self.status, self.name, self.problem, self.response) = (status, name, problem, response)
    }

    /// Members of the API that an attempt and a webhook's last failure share.
    ///
    /// - Parameter most: characters of the answer.
    package func json(atMost most: Int = .max) -> JSONObject {
        [
            "outcome": .string(name), "status": status.map { .int($0) }, "problem": .described(problem),
            "response": response.isEmpty ? nil : .string(String(response.prefix(most))),
        ]
    }
}

extension AttemptResult {
    /// Makes the result of a request that could not be built.
    init(_ problem: AttemptProblem) {
        name = problem.reason.rawValue
        self.problem = problem.description
    }

    init(_ outcome: OutboundOutcome) {
        switch outcome.result {
        case .answered(let code, let headers, let body, _):
            status = code
            name = outcome.result.className
            response = String(decoding: body.prefix(Self.maxResponseBytes), as: UTF8.self)
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
    /// Name of the failure that its owner sees: nothing that tells an open port from a closed one.
    fileprivate var publicName: String {
        switch reason {
        case .connectTimeout, .refused, .unreachable, .blocked, .reset: "no_connection"
        default: reason.rawValue
        }
    }
}
