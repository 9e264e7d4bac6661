package import StalecastOutbound
package import StalecastTemplate
package import StalecastWire

/// Holds a version back until the origin's public answer shows it, so that no client is told of a version that a fetch
/// would not bring yet; for a bounded time, since a message too early is better than none.
package struct Fence: Sendable {
    private let settings: Settings
    private let access: OriginAccess
    private let kind: TemplateKind
    private let now: @Sendable () -> ContinuousClock.Instant

    /// Result of a probe.
    private enum Sight {
        /// The goal, or something newer.
        case goal
        /// Something older, in words.
        case older(String)
        /// Something else, of an origin without numbers.
        case other(Content)
    }

    private enum Content: Hashable {
        case etag(String)
        case template(Template)

        var words: String {
            switch self {
            case .etag: "the public answer has another ETag"
            case .template: "the public answer has other content"
            }
        }
    }

    /// A probe takes at most this long, and never longer than what is left of the wait.
    private static let longestInterval = Duration.milliseconds(250)

    /// - Parameters:
    ///   - access: usually without credentials, as clients have none.
    ///   - now: the clock that bounds the wait.
    package init(
        _ settings: Settings, access: OriginAccess, kind: TemplateKind,
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
    ) {
        (self.settings, self.access, self.kind, self.now) = (settings, access, kind, now)
    }

    /// Probes until the goal or something newer is seen, or the wait is over. Where there are no numbers, what gives way
    /// to something that is not the goal has gone past it: the goal was overtaken, and will never be seen. Returns at
    /// once with `timeout` when the task is cancelled.
    package func wait(for goal: Goal) async -> Outcome {
        let began = now()
        var interval = settings.interval
        var problem = "no probe was answered in time"
        // A probe by ETag shows an ETag, never a template: its first answer is what clients are answered before.
        var before: Content? = if case .content = settings.proof { goal.before.map(Content.template) } else { nil }
        while true {
            let left = settings.wait - (now() - began)
            guard left > .zero, !Task.isCancelled else { return .timeout(problem: problem) }
            do {
                switch try await sight(of: goal, within: left) {
                case .goal: return .passed(after: now() - began)
                case .older(let lag): problem = lag
                case .other(let shown):
                    if let before, shown != before { return .passed(after: now() - began) }
                    before = shown
                    problem = shown.words
                }
            } catch {
                problem = error.description
            }
            let rest = settings.wait - (now() - began)
            try? await Task.sleep(for: max(.zero, min(interval, rest)))  // cancelled: the loop ends
            interval = min(interval * 2, Self.longestInterval)
        }
    }

    private func sight(of goal: Goal, within left: Duration) async throws(OriginProblem) -> Sight {
        var access = access
        access.limits.timeout = min(access.limits.timeout, left)
        access.limits.connectTimeout = min(access.limits.connectTimeout, left)
        switch settings.proof {
        case .pointer(let pointer): return try await sight(at: pointer, goal, access)
        case .etag: return try Self.sight(of: try await access.answer("GET", settings.url).headers["etag"], goal)
        case .fetch(let apiKey, let appID): return try await fetched(apiKey, appID, goal, access)
        case .content(let reading): return try await content(reading, goal, access)
        }
    }

    private func sight(
        at pointer: JSONPointer, _ goal: Goal, _ access: OriginAccess
    ) async throws(OriginProblem) -> Sight {
        let json = try Self.json(try await access.answer("GET", settings.url))
        guard let shown = pointer.value(in: json)?.versionNumber else {
            throw OriginProblem(.invalidContent, "the probe's answer has no version at \(pointer)")
        }
        return Self.sight(of: shown, goal.version ?? 0)
    }

    private func fetched(
        _ apiKey: String, _ appID: String, _ goal: Goal, _ access: OriginAccess
    ) async throws(OriginProblem) -> Sight {
        // A server that asks for no token of an installation still asks for the member.
        let token = await settings.installation?.token() ?? "none"
        let body: JSONValue = [
            "appId": .string(appID), "appInstanceId": .string(settings.installation?.id ?? Self.instanceID),
            "appInstanceIdToken": .string(token), "languageCode": "en", "sdkVersion": "1.0.0",
        ]
        var headers = [
            OutboundHeader(trusted: "Content-Type", "application/json"),
            OutboundHeader(trusted: "If-None-Match", "*"),
        ]
        if !apiKey.isEmpty { headers.append(OutboundHeader(trusted: "X-Goog-Api-Key", apiKey)) }
        let answer: OriginAccess.Answer
        do { answer = try await access.answer("POST", settings.url, headers: headers, body: body.encoded()) } catch {
            guard error.reason == .unauthorized, let installation = settings.installation else { throw error }
            throw OriginProblem(error.reason, error.description + installation.excuse, retryAfter: error.retryAfter)
        }
        let json = try Self.json(answer)
        // The answer for a project without a template has no version.
        return Self.sight(of: json["templateVersion"]?.versionNumber ?? 0, goal.version ?? 0)
    }

    /// A Firebase installation id: 22 characters, the first of them c to f.
    private static let instanceID = "cStalecastFenceProbe00"

    private func content(
        _ reading: ContentReading, _ goal: Goal, _ access: OriginAccess
    ) async throws(OriginProblem) -> Sight {
        let answer = try await access.answer("GET", settings.url)
        let shown = try reading.read(answer.body, contentType: answer.headers["content-type"], kind: kind)
        return shown.template == goal.content.template ? .goal : .other(.template(shown.template))
    }

    private static func sight(of etag: String?, _ goal: Goal) throws(OriginProblem) -> Sight {
        guard let etag else { throw OriginProblem(.invalidContent, "the probe's answer has no ETag") }
        guard let version = goal.version else {
            let seen = ETagSpelling.bare(etag)
            return seen == goal.etag.map { ETagSpelling.bare($0) } ? .goal : .other(.etag(String(seen)))
        }
        guard let shown = trailingNumber(ETagSpelling.bare(etag)) else {
            throw OriginProblem(.invalidContent, "the probe's ETag does not end with a version number")
        }
        return sight(of: shown, version)
    }

    private static func sight(of shown: VersionNumber, _ version: VersionNumber) -> Sight {
        shown >= version ? .goal : .older("the public answer shows version \(shown)")
    }

    /// 17 in `etag-123456789012-17`.
    private static func trailingNumber(_ text: Substring) -> VersionNumber? {
        VersionNumber(text.reversed().prefix { $0.isASCII && $0.isNumber }.reversed().map(String.init).joined())
    }

    private static func json(_ answer: OriginAccess.Answer) throws(OriginProblem) -> JSONValue {
        do { return try JSONValue.parse(answer.body) } catch {
            throw OriginProblem(.invalidContent, "the probe's answer is not JSON: \(error.description)")
        }
    }

    /// Settings for finding out what an origin's clients are answered now, before a version is announced.
    package struct Settings: Sendable {
        /// A URL that answers as clients are answered: behind the same cache, from the same replicas.
        package var url: OutboundURL
        package var proof: Proof
        /// Installation with which ``Proof/fetch(apiKey:appID:)`` asks, for an origin that serves only installations;
        /// nil for others.
        package var installation: FirebaseInstallation?
        /// Time that the origin may take to catch up. Default 2 s; then the version is announced anyway.
        package var wait: Duration = .seconds(2)
        /// Time between two probes. Default 50 ms; doubles up to 250 ms.
        package var interval: Duration = .milliseconds(50)

        package init(url: OutboundURL, proof: Proof) {
            self.url = url
            self.proof = proof
        }

        /// Part of the answer that shows the version.
        package enum Proof: Sendable {
            /// A GET; the integer at this place of its JSON.
            case pointer(JSONPointer)
            /// A GET; its `ETag`: the number it ends with, or where the origin has no numbers, the ETag the source saw.
            case etag
            /// A Firebase client's `:fetch`: `templateVersion` of the answer. The key goes into `X-Goog-Api-Key`
            /// unless it is empty.
            case fetch(apiKey: String, appID: String)
            /// A GET; the same content as the source saw, read in the same way. For origins without numbers.
            case content(ContentReading)
        }
    }

    /// Version that a fence has to see.
    package struct Goal: Sendable {
        /// Least version that is enough; nil when the origin has no numbers.
        package var version: VersionNumber?
        /// The ETag of the answer the version was read from.
        package var etag: String?
        package var content: OriginContent
        /// Content that clients may be answered until then; nil when that is not known.
        package var before: Template?

        package init(version: VersionNumber?, etag: String?, content: OriginContent, before: Template? = nil) {
            (self.version, self.etag, self.content, self.before) = (version, etag, content, before)
        }
    }

    /// End of the wait at a fence.
    package enum Outcome: Sendable, Hashable {
        /// The origin's public answer shows the version, or one that came after it; after this long.
        case passed(after: Duration)
        /// The answer does not, and the time is over. `problem` is what the last probe saw.
        case timeout(problem: String)
    }
}
