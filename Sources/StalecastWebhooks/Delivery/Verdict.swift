import StalecastOutbound
import StalecastWire

/// What an attempt's outcome means for its message and its webhook.
enum Verdict: Equatable {
    case delivered
    /// 410: the receiver says the URL is gone for good.
    case gone
    /// The receiver asked not to be called any more (`webhook-delivery: disable`).
    case refused
    /// This message will never be taken: 413, 415, `webhook-delivery: abort-message`, or the format has no word for it.
    case hopeless
    case failed(Wait)

    /// How long to wait before the next attempt.
    enum Wait: Equatable {
        case backoff
        /// At least as long as the backoff; while the receiver only asks for patience nothing counts as failing.
        case atLeast(Duration, isPatience: Bool)
    }

    init(_ outcome: OutboundOutcome, _ pace: DeliveryPace, at now: Timestamp) {
        switch outcome.result {
        case .answered(let status, let headers, _, _): self = Self.answered(status, headers, pace, at: now)
        case .failed(let failure):
            let isSlow = failure.reason == .blocked || failure.reason == .tlsVerify
            self = .failed(isSlow ? .atLeast(pace.slowFloor, isPatience: false) : .backoff)
        }
    }

    private static func answered(
        _ status: Int, _ headers: [String: String], _ pace: DeliveryPace, at now: Timestamp
    ) -> Verdict {
        switch headers["webhook-delivery"]?.lowercased() {
        case "disable": return .refused
        case "abort-message": return .hopeless
        default: break
        }
        switch status {
        case 200..<300: return .delivered
        case 410: return .gone
        case 413, 415: return .hopeless
        case 429, 502, 503, 504:
            if let asked = RetryAfter.delay(headers["retry-after"], now: now) {
                return .failed(.atLeast(min(asked, pace.longestRetryAfter), isPatience: true))
            }
            return .failed(status == 503 ? .backoff : .atLeast(pace.throttleFloor, isPatience: false))
        default: return .failed(.backoff)
        }
    }
}

/// The class of an attempt's outcome, as metrics count it.
enum AttemptClass {
    /// `2xx` to `5xx`, or the reason of a failure.
    static func of(_ result: OutboundOutcome.Result) -> String {
        switch result {
        case .answered(let status, _, _, _): (200...599).contains(status) ? "\(status / 100)xx" : "other_status"
        case .failed(let failure): failure.reason.rawValue
        }
    }
}
