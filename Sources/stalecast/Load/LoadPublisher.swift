import StalecastLoad
import StalecastWire

/// Publishes the versions that a load waits for, and puts back what was there.
struct LoadPublisher: Sendable {
    /// The parameter whose value changes with every round.
    static let parameter = "stalecast_load"

    let api: TemplateAPI
    private let original: ServedTemplate
    private var latest: ServedTemplate

    /// Reads the template found at the start.
    /// - Throws: ``CommandFailure``, for example when the daemon is not there or refuses the token.
    init(_ api: TemplateAPI) async throws(CommandFailure) {
        self.api = api
        original = try await api.get()
        latest = original
    }

    /// Publishes ``latest`` with another value of ``parameter``, round by round, and hands each result to `take`. Ends after
    /// a round that does not reach everyone, and at Ctrl-C.
    ///
    /// - Parameters:
    ///   - gap: pause between two rounds.
    ///   - words: a round, and what became of its receivers: `round` and `delivered`.
    /// - Throws: ``CommandFailure`` `versionMismatch` when another client published meanwhile.
    mutating func measure(
        _ rounds: ClosedRange<Int>, on session: LoadSession, gap: Duration, words: (round: String, told: String),
        _ take: (LoadSession.Round) -> Void
    ) async throws {
        for number in rounds where !LoadInterrupt.isAsked {
            let version = latest.version + 1
            let (api, etag) = (api, latest.etag)
            let template = body("\(words.round) \(number), version \(version)")
            let (result, served) = try await session.round(number, awaiting: version) {
                try await api.put(template, ifMatch: etag, validateOnly: false)
            }
            latest = served
            take(result)
            guard result.isComplete else { return }
            if number < rounds.upperBound {
                try await session.wait(gap) { session.progress.show(result, words.round, words.told) }
            }
        }
    }

    /// Refuses to publish to subscribers and webhooks that are not the load's own, unless that was permitted.
    ///
    /// - Parameter isPermitted: `--yes`.
    func beSureNobodyListens(isPermitted: Bool) async throws(CommandFailure) {
        if isPermitted { return }
        let client = api.client
        let answer = try await client.send("GET", "/v1/projects/\(api.scope.project)/topics").json()
        let heard = answer.items("topics").filter { topic in
            topic.items("scopes").contains { TopicsReading.scope($0) == api.scope.description }
        }
        let subscribers = heard.reduce(0) { sum, topic in
            sum + (topic["subscribers"]?["sse"]?.int64 ?? 0) + (topic["subscribers"]?["poll"]?.int64 ?? 0)
        }
        let webhooks = try await WebhookAPI(client: client, project: api.scope.project).list()
            .filter { $0["description"]?.string != WebhookRegistrations.description }
        let apps = try await api.read("/audience")["clientsSeen"]?.int64 ?? 0
        guard subscribers > 0 || !webhooks.isEmpty || apps > 0 else { return }
        throw CommandFailure(
            .refused,
            "\(Self.listeners(subscribers, webhooks.count, apps)) \(api.scope); this load would publish to them again "
                + "and again",
            advice: "--project and --namespace name a scope of the load's own; --yes publishes to them all the same.")
    }

    /// Phrase, for example `1 subscriber and 2 webhooks listen to`. Apps that only fetch are known for 25 h.
    private static func listeners(_ subscribers: Int64, _ webhooks: Int, _ apps: Int64) -> String {
        let counts = [(subscribers, "subscriber"), (Int64(webhooks), "webhook"), (apps, "app")].filter { $0.0 > 0 }
        let parts = counts.map { "\($0) \($1)\($0 == 1 ? "" : "s")" }
        return parts.joined(separator: " and ")
            + (counts.reduce(0) { $0 + $1.0 } == 1 ? " listens to or fetches" : " listen to or fetch")
    }

    private func body(_ value: String) -> JSONValue {
        var template = original.json.object ?? [:]
        template["version"] = ["description": .string("load, \(value)")]
        var parameters = template["parameters"]?.object ?? [:]
        parameters[Self.parameter] = ["defaultValue": ["value": .string(value)], "description": "stalecast load"]
        template["parameters"] = .object(parameters)
        return .object(template)
    }

    /// Makes the original content current again: by a rollback, or by an empty template when there was no version. A
    /// failure is part of the report.
    ///
    /// - Parameter isWanted: `--restore`.
    func restoration(isWanted: Bool) async -> LoadRestoration {
        guard isWanted else { return .notWanted }
        guard latest.version > original.version else { return .notNeeded }
        do throws(CommandFailure) {
            // The version of another client that published meanwhile must not be lost.
            guard try await api.get().version == latest.version else { return .leftAlone }
            if original.version > 0 {
                let back = try await api.rollback(to: original.version, ifMatch: nil)
                return .rolledBack(to: original.version, as: back.version)
            }
            let empty: JSONValue = ["conditions": [], "parameters": [:], "parameterGroups": [:]]
            return .emptied(as: try await api.put(empty, ifMatch: latest.etag, validateOnly: false).version)
        } catch {
            return .failed(error)
        }
    }
}

enum LoadRestoration: Sendable {
    /// Nothing was published.
    case notNeeded
    /// `--no-restore`: the last round's version stays.
    case notWanted
    /// Another client published meanwhile; its version stays.
    case leftAlone
    case rolledBack(to: Int64, as: Int64)
    case emptied(as: Int64)
    case failed(CommandFailure)

    var sentence: String {
        switch self {
        case .notNeeded: "nothing was published"
        case .notWanted: "the last round's version stays (--no-restore)"
        case .leftAlone: "another version was published meanwhile: it stays, nothing was rolled back"
        case .rolledBack(let source, let version): "rolled back to version \(source), which is now version \(version)"
        case .emptied(let version): "there was no version before: an empty template is now version \(version)"
        case .failed(let failure): "not restored: \(failure.sentence)"
        }
    }
}
