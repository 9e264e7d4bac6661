import Foundation
import StalecastWire

/// Meaning of the server's answer to a fetch.
enum FetchAnswer: Sendable, Equatable {
    /// `UPDATE`, or `EMPTY_CONFIG` and `NO_TEMPLATE` as a content without entries.
    case content(ConfigContent)
    /// The client's content is current; the template's version, if the server sent it.
    case unchanged(version: Int64?)
    case failed(Failure)

    init(_ response: TransportResponse) {
        switch response.status {
        case 200: self = Self.answer(response)
        // Stalecast and Google never send it, proxies and imitations may.
        case 304: self = .unchanged(version: nil)
        default: self = .failed(Failure(response))
        }
    }

    private static func answer(_ response: TransportResponse) -> FetchAnswer {
        guard let json = JSONValue.ifValid(response.body), let body = json.object else {
            return .failed(.unreadable("the answer is not a JSON object; is the endpoint a config server?"))
        }
        // Google may say 200 and mean an error (iOS SDK).
        if body.count == 1, let error = body["error"] { return .failed(Failure(envelope: error, status: 200)) }
        let version = body["templateVersion"]?.int64
        switch body["state"]?.string {
        case "NO_CHANGE": return .unchanged(version: version)
        case "NO_TEMPLATE", "EMPTY_CONFIG":
            return .content(ConfigContent(etag: response.headers["etag"], version: version))
        // A server that answers entries without a state is understood, as the Android SDK does.
        case "UPDATE", nil: return content(body, response, version)
        case let state?: return .failed(.unreadable("the server answered with state \(state); try again later"))
        }
    }

    private static func content(_ body: JSONObject, _ response: TransportResponse, _ version: Int64?) -> FetchAnswer {
        // Entries may be left out where there are none, as Firebase does; anything else in their place is no answer.
        let isLeftOut = body["entries"] == nil && body["state"] != nil
        guard let entries = isLeftOut ? JSONObject() : body["entries"]?.object else {
            return .failed(.unreadable("the answer has no entries; is the endpoint a config server?"))
        }
        var content = ConfigContent(etag: response.headers["etag"], version: version)
        for (key, value) in entries.members { content.entries[key] = value.string ?? value.text() }
        content.experiments = (body["experimentDescriptions"]?.array ?? []).compactMap(ConfigContent.Experiment.init)
        content.rollouts = (body["rolloutMetadata"]?.array ?? []).compactMap(ConfigContent.Rollout.init)
        for (key, value) in body["personalizationMetadata"]?.object?.members ?? [] {
            content.personalization[key] = value.text(JSONStyle(sortedKeys: true))
        }
        return .content(content)
    }

    /// Reason why a fetch brought nothing.
    struct Failure: Error, Sendable, Equatable {
        /// The HTTP status; nil when there was no answer.
        var status: Int?
        /// A sentence for the developer.
        var reason: String
        /// Seconds the server asked to wait (`Retry-After`); nil when it did not.
        var retryAfter: TimeInterval?

        /// Whether the failure starts or lengthens throttling.
        var throttles: Bool { status.map(FetchThrottle.statuses.contains) ?? false }

        static func unreadable(_ reason: String) -> Failure { Failure(status: 200, reason: reason) }

        /// No answer: no connection, a timeout.
        static func unreachable(_ error: any Error, endpoint: URL) -> Failure {
            Failure(reason: "\(endpoint.absoluteString) could not be reached: \(error.localizedDescription)")
        }
    }
}

extension ConfigContent.Experiment {
    /// nil for a description without an id.
    fileprivate init?(json: JSONValue) {
        guard let id = json["experimentId"]?.string else { return nil }
        self.id = id
        variant = json["variantId"]?.string ?? ""
        timeToLiveMillis = json["timeToLiveMillis"].map { $0.string ?? $0.text() } ?? ""
        triggerTimeoutMillis = json["triggerTimeoutMillis"].map { $0.string ?? $0.text() } ?? ""
        keys = (json["affectedParameterKeys"]?.array ?? []).compactMap(\.string)
    }
}

extension ConfigContent.Rollout {
    /// nil for a rollout without an id.
    fileprivate init?(json: JSONValue) {
        guard let id = json["rolloutId"]?.string else { return nil }
        self.id = id
        variant = json["variantId"]?.string ?? ""
        keys = (json["affectedParameterKeys"]?.array ?? []).compactMap(\.string)
    }
}

extension FetchAnswer.Failure {
    init(_ response: TransportResponse) {
        let envelope = JSONValue.ifValid(response.body)?["error"]
        self.init(envelope: envelope ?? .null, status: response.status)
        retryAfter = response.headers["retry-after"].flatMap(TimeInterval.init).flatMap { $0 >= 0 ? $0 : nil }
    }

    /// Reads the value of the member `error` of Google's error envelope.
    init(envelope: JSONValue, status: Int) {
        let code = envelope["code"]?.int64.map(Int.init(truncatingIfNeeded:)) ?? status
        let message = envelope["message"]?.string ?? "no reason was given"
        self.init(status: code, reason: "the server answered \(code): \(message)")
    }
}
