import Crypto
package import StalecastOutbound
package import StalecastWire

/// Consequence of an attempt's outcome for its message and its webhook.
package enum AttemptConclusion: Equatable, Sendable {
    case delivered
    /// 410: the receiver says the URL is gone for good.
    case gone
    /// The receiver asked not to be called any more (`webhook-delivery: disable`).
    case refused
    /// This message will never be taken: 413, 415, `webhook-delivery: abort-message`, or the format has no word for it.
    case hopeless
    case failed(Wait)
    /// Ended from this side: the message is owed as before.
    case cancelled

    package enum Wait: Equatable, Sendable {
        case backoff
        /// Wait of at least this length, or of the backoff if that is longer.
        case atLeast(Duration)
        /// Wait that the receiver asked for in `Retry-After`. It holds for all messages to that receiver, which does
        /// not count as failing meanwhile.
        case patience(Duration)
    }

    package init(_ outcome: OutboundOutcome, _ pace: DeliveryConfiguration.Pace, at now: Timestamp) {
        switch outcome.result {
        case .answered(let status, let headers, _, _): self = Self.answered(status, headers, pace, at: now)
        case .failed(let failure):
            switch failure.reason {
            case .cancelled: self = .cancelled
            case .blocked, .tlsVerify: self = .failed(.atLeast(pace.slowFloor))
            default: self = .failed(.backoff)
            }
        }
    }

    /// No request could be made.
    init(_ problem: AttemptProblem) { self = problem.reason == .unsupported ? .hopeless : .failed(.backoff) }

    private static func answered(
        _ status: Int, _ headers: [String: String], _ pace: DeliveryConfiguration.Pace, at now: Timestamp
    ) -> AttemptConclusion {
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
                return .failed(.patience(min(asked, pace.longestRetryAfter)))
            }
            return .failed(status == 503 ? .backoff : .atLeast(pace.throttleFloor))
        default: return .failed(.backoff)
        }
    }
}

extension DeliveryConfiguration.Pace {
    /// Full jitter: a wait drawn evenly from the floor to the floor plus `base · 2ⁿ`, at most the cap.
    ///
    /// - Parameters:
    ///   - failures: in a row, from 1.
    ///   - isOneVersion: of modes `all` and `fifo`, where each version is tried on its own.
    package func backoff(
        after failures: Int, isOneVersion: Bool, using generator: inout some RandomNumberGenerator
    ) -> Duration {
        let most =
            isOneVersion
            ? versionBase.doubled(afterFailures: failures, atMost: versionCap)
            : base.doubled(afterFailures: failures, atMost: cap)
        return floor + most * Double.random(in: 0...1, using: &generator)
    }

    /// Longest time between two attempts of a failing webhook, in microseconds.
    var longestWait: Int64 {
        max(cap, versionCap, longestRetryAfter, slowFloor).microseconds
            + WebhookLimits.timeoutRange.upperBound.microseconds
    }
}

extension OutboundOutcome.Result {
    /// Class that metrics count: `2xx` to `5xx`, or the reason of a failure.
    var className: String {
        switch self {
        case .answered(let status, _, _, _):
            (200...599).contains(status) ? Self.classNames[status / 100 - 2] : "other_status"
        case .failed(let failure): failure.reason.rawValue
        }
    }

    private static let classNames = ["2xx", "3xx", "4xx", "5xx"]
}

extension Webhook {
    /// Whether both webhooks send the same kind of request to the same receiver.
    func goesWhere(_ other: Webhook) -> Bool {
        url == other.url && settings.tls == other.settings.tls && settings.headers == other.settings.headers
            && settings.format == other.settings.format && settings.tokenURL == other.settings.tokenURL
            && settings.serviceAccountFile == other.settings.serviceAccountFile
    }

    /// Digest of everything that ``goesWhere(_:)`` compares, to notice a change after a restart.
    package var receiverDigest: String {
        let headers = settings.headers.flatMap { [$0.name, $0.value] }
        let files = [
            settings.caFile, settings.certificateFile, settings.keyFile, settings.serviceAccountFile,
            settings.tokenURL?.text,
        ]
        let parts = [url.text, "\(settings.format)"] + files.map { $0 ?? "" } + headers
        var hash = SHA256()
        for part in parts { hash.update(data: Array("\(part.utf8.count):\(part)".utf8)) }
        return hash.finalize().prefix(12).map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }
}
