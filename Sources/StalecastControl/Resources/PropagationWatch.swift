import StalecastHTTP
package import StalecastHub
import StalecastStore
import StalecastWire

/// Goal of a client that waits for a version's progress, and the end of the wait. The server decides, for commands,
/// browsers and CI alike.
package struct PropagationGoal: Sendable, Hashable {
    /// Reason for the watch's end. Raw values are on the wire.
    package enum Reason: String, Sendable {
        case reached = "REACHED"
        case timeout = "TIMEOUT"
        case superseded = "SUPERSEDED"
        case noAudience = "NO_AUDIENCE"
    }

    package let stage: RolloutStatus.Stage
    /// Above 0, at most 1.
    package let target: Double
    package let minClients: Int
    /// nil: a minute after the time over which clients are asked to spread their fetches, as far as nodes have told.
    package let timeout: Duration?

    package init(stage: RolloutStatus.Stage, target: Double, minClients: Int, timeout: Duration?) {
        (self.stage, self.target, self.minClients, self.timeout) = (stage, target, minClients, timeout)
    }

    /// nil while it goes on.
    ///
    /// - Parameters:
    ///   - isNewest: no newer version was announced.
    ///   - waited: since the client began to wait.
    package func verdict(on status: RolloutStatus, isNewest: Bool, waited: Duration) -> Reason? {
        let (count, expected) = status.share(of: stage)
        let audience = stage.isOfClients ? status.clients.audience : status.streams.streams
        // Until all loops have told, an empty audience means nothing.
        if status.isCounted {
            if audience < minClients || (expected == 0 && audience > 0) { return .noAudience }
            // Clients with a newer version count as having this one: once there is one, their count says nothing of it.
            // The state is of fetches.
            let isExact = isNewest || !stage.isOfClients || stage == .fetched && status.state.isDone
            // Without the margin 0.07 of 100 clients would be more than 7.
            if isExact, Double(count) >= target * Double(expected) - 1e-9 { return .reached }
        }
        if !isNewest { return .superseded }
        let limit = timeout ?? .milliseconds(60_000 + status.fetches.windowMs)
        return waited >= limit ? .timeout : nil
    }
}

extension Call {
    /// `GET remoteConfig/propagation:watch`.
    func watchPropagation() async throws(GoogleError) -> Answer {
        let resource = try template()
        let follows = try query.flag("follow")
        let wanted = try query.versionNumber("versionNumber")
        let found = try await control.propagation(resource, wanted)
        // Versions that ended before a restart are in the store only.
        let stored = found?.isFromMemory == false ? found : nil
        if follows { return feed(PropagationWatch(control: control, scope: resource.scope, stored: stored)) }
        guard let found else { throw .notKnown(wanted ?? control.store.currentTemplates[resource.scope]?.version ?? 0) }
        return feed(
            PropagationWatch(
                control: control, scope: resource.scope, stored: stored, version: found.version, goal: try goal(found)))
    }

    private func goal(_ status: RolloutStatus) throws(GoogleError) -> PropagationGoal {
        let asked = try choice("stage", among: RolloutStatus.Stage.allCases)
        if let asked, asked.isOfClients, status.isMostlyAnonymous {
            throw .invalidField(
                "stage",
                "\(status.clients.unidentifiedStreams) of \(status.streams.streams) streams do not say "
                    + "whose they are, so \(asked.rawValue) cannot be counted: wait for stage=sent, or let clients "
                    + "send client=")
        }
        let stage = asked ?? (status.isMostlyAnonymous || status.clients.audience == 0 ? .sent : .fetched)
        let least = try query.integer("minClients") ?? 0
        guard least >= 0 else { throw .invalidField("minClients", "minClients must not be negative") }
        return PropagationGoal(
            stage: stage, target: try target(), minClients: Int(clamping: least),
            timeout: try timeout())
    }

    private func target() throws(GoogleError) -> Double {
        guard let text = query["target"] else { return 0.99 }
        let number = text.hasSuffix("%") ? Double(text.dropLast()).map { $0 / 100 } : Double(text)
        guard let number, number > 0, number <= 1 else {
            throw .invalidField("target", "target must be a share, for example 0.99 or 99%")
        }
        return number
    }

    private func timeout() throws(GoogleError) -> Duration? {
        guard let text = query["timeout"] else { return nil }
        let units: [(String, Int64)] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)]
        let unit = units.first { text.hasSuffix($0.0) } ?? ("", 1000)
        guard let number = Int64(text.dropLast(unit.0.count)), (0...3_600_000).contains(number),
            number * unit.1 <= 3_600_000
        else { throw .invalidField("timeout", "timeout must be a time up to 1h, for example 90s or 2m") }
        return .milliseconds(number * unit.1)
    }

    private func feed(_ watch: PropagationWatch) -> Answer { watched(watch.scope) { await watch.observe(after: $0) } }
}

/// One watcher's view of a version's way, or with neither version nor goal of that of the newest.
struct PropagationWatch: Sendable {
    let control: Control
    let scope: Scope
    /// Status in the store of a version that is not in memory; nil: there is none, or it is in memory.
    let stored: RolloutStatus?
    var version: VersionNumber?
    var goal: PropagationGoal?

    func observe(after waited: Duration) async -> Watcher.Sight {
        let status = await control.propagation(of: scope, version) ?? stored
        if let status, let goal, let reason = verdict(status, goal, waited) {
            return .end(done(status, goal, reason))
        }
        let (json, key) = described(status)
        return .news(SSEEncoder.event("progress", data: json.encoded(.wire)), key: key)
    }

    /// JSON of an event, and the part of it whose change is news.
    private func described(_ status: RolloutStatus?) -> (json: JSONValue, key: JSONValue) {
        var object = status?.json(hasCurve: goal == nil) ?? RolloutStatus.nothing
        let json = JSONValue.object(object)
        object["ageSeconds"] = nil
        object["curve"] = nil
        return (json, .object(object))
    }

    private func verdict(
        _ status: RolloutStatus, _ goal: PropagationGoal, _ waited: Duration
    ) -> PropagationGoal.Reason? {
        let newest =
            control.hub.propagation.propagation(of: scope)?.version ?? control.store.currentTemplates[scope]?.version
        return goal.verdict(on: status, isNewest: newest == status.version, waited: waited)
    }

    private func done(_ status: RolloutStatus, _ goal: PropagationGoal, _ reason: PropagationGoal.Reason) -> [UInt8] {
        let (count, expected) = status.share(of: goal.stage)
        let remark: JSONValue = "no client was connected that would hear of it"
        let object: JSONValue = [
            "reason": .string(reason.rawValue), "versionNumber": .string(String(status.version)),
            "atStage": .string(goal.stage.rawValue), "target": .double(goal.target),
            "share": expected > 0 ? .double((Double(count) / Double(expected) * 1e6).rounded() / 1e6) : .null,
            "remark": reason == .reached && expected == 0 ? remark : nil,
            "propagation": .object(status.json(hasCurve: true)),
        ]
        return SSEEncoder.event("done", data: object.encoded(.wire))
    }
}
