import StalecastOutbound
package import StalecastTemplate
import StalecastWire

/// Holds a version back until the origin's public answer shows it, so that nobody is told of a version that a fetch
/// would not bring yet; for a bounded time, since a message too early is better than none.
package struct Fence: Sendable {
    private let settings: FenceSettings
    private let access: OriginAccess
    private let kind: TemplateKind

    /// A probe takes at most this long, and never longer than what is left of the wait.
    private static let longestInterval = Duration.milliseconds(250)

    /// - Parameter access: usually without credentials, as clients have none.
    package init(_ settings: FenceSettings, access: OriginAccess, kind: TemplateKind) {
        self.settings = settings
        self.access = access
        self.kind = kind
    }

    /// Probes until the goal is seen or the wait is over. Returns at once with `timeout` when the task is cancelled.
    package func wait(for goal: FenceGoal) async -> FenceVerdict {
        let began = ContinuousClock.now
        var interval = settings.interval
        var problem = "no probe was answered in time"
        while true {
            let left = settings.wait - (ContinuousClock.now - began)
            guard left > .zero, !Task.isCancelled else { return .timeout(problem: problem) }
            do {
                guard let lag = try await lag(behind: goal, within: left) else {
                    return .passed(after: ContinuousClock.now - began)
                }
                problem = lag
            } catch {
                problem = error.description
            }
            let rest = settings.wait - (ContinuousClock.now - began)
            try? await Task.sleep(for: max(.zero, min(interval, rest)))  // cancelled: the loop ends
            interval = min(interval * 2, Self.longestInterval)
        }
    }

    /// - Returns: what is older than the goal; nil when nothing is.
    private func lag(behind goal: FenceGoal, within left: Duration) async throws(OriginProblem) -> String? {
        var access = access
        access.limits.timeout = min(access.limits.timeout, left)
        access.limits.connectTimeout = min(access.limits.connectTimeout, left)
        switch settings.proof {
        case .pointer(let pointer): return try await lag(at: pointer, goal, access)
        case .etag: return try Self.lag(of: try await access.answer("GET", settings.url).headers["etag"], goal)
        case .fetch(let apiKey, let appID): return try await fetchLag(apiKey, appID, goal, access)
        case .content(let reading): return try await contentLag(reading, goal, access)
        }
    }

    private func lag(
        at pointer: JSONPointer, _ goal: FenceGoal, _ access: OriginAccess
    ) async throws(OriginProblem) -> String? {
        let json = try Self.json(try await access.answer("GET", settings.url))
        guard let shown = pointer.value(in: json)?.versionNumber else {
            throw OriginProblem(.invalidContent, "the probe's answer has no version at \(pointer)")
        }
        return Self.lag(of: shown, goal)
    }

    private func fetchLag(
        _ apiKey: String, _ appID: String, _ goal: FenceGoal, _ access: OriginAccess
    ) async throws(OriginProblem) -> String? {
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
        let json = try Self.json(
            try await access.answer("POST", settings.url, headers: headers, body: body.encoded()))
        // A project without a template says so and has no version.
        return Self.lag(of: json["templateVersion"]?.versionNumber ?? 0, goal)
    }

    /// A Firebase installation id: 22 characters, the first of them c to f.
    private static let instanceID = "cStalecastFenceProbe00"

    private func contentLag(
        _ reading: ContentReading, _ goal: FenceGoal, _ access: OriginAccess
    ) async throws(OriginProblem) -> String? {
        let answer = try await access.answer("GET", settings.url)
        let shown = try reading.read(answer.body, contentType: answer.headers["content-type"], kind: kind)
        return shown.template == goal.content.template ? nil : "the public answer has other content"
    }

    private static func lag(of etag: String?, _ goal: FenceGoal) throws(OriginProblem) -> String? {
        guard let etag else { throw OriginProblem(.invalidContent, "the probe's answer has no ETag") }
        guard let version = goal.version else {
            return bare(etag) == goal.etag.map(bare) ? nil : "the public answer has another ETag"
        }
        guard let shown = trailingNumber(bare(etag)) else {
            throw OriginProblem(.invalidContent, "the probe's ETag does not end with a version number")
        }
        return lag(of: shown, version)
    }

    private static func lag(of shown: VersionNumber, _ goal: FenceGoal) -> String? { lag(of: shown, goal.version ?? 0) }

    private static func lag(of shown: VersionNumber, _ version: VersionNumber) -> String? {
        shown >= version ? nil : "the public answer shows version \(shown)"
    }

    /// Without the quotes and the `W/` that caches add.
    private static func bare(_ etag: String) -> Substring {
        var rest = etag[...]
        if rest.hasPrefix("W/") { rest = rest.dropFirst(2) }
        if rest.count >= 2, rest.hasPrefix("\""), rest.hasSuffix("\"") { rest = rest.dropFirst().dropLast() }
        return rest
    }

    /// 17 in `etag-123456789012-17`.
    private static func trailingNumber(_ text: Substring) -> VersionNumber? {
        VersionNumber(text.reversed().prefix { $0.isASCII && $0.isNumber }.reversed().map(String.init).joined())
    }

    private static func json(_ answer: OriginAnswer) throws(OriginProblem) -> JSONValue {
        do { return try JSONValue.parse(answer.body) } catch {
            throw OriginProblem(.invalidContent, "the probe's answer is not JSON: \(error.description)")
        }
    }
}
