import StalecastAccess
import StalecastHTTP
package import StalecastHub
import StalecastStore
import StalecastWire

/// What somebody waits for on a version's way, and when that is over. The server decides, for commands, browsers and CI
/// alike.
package struct PropagationGoal: Sendable, Hashable {
    /// Why it is over. Raw values are on the wire.
    package enum Reason: String, Sendable {
        case reached = "REACHED"
        case timeout = "TIMEOUT"
        case superseded = "SUPERSEDED"
        case noAudience = "NO_AUDIENCE"
    }

    package let stage: Propagation.Stage
    /// Above 0, at most 1.
    package let target: Double
    package let minClients: Int
    package let timeout: Duration

    package init(stage: Propagation.Stage, target: Double, minClients: Int, timeout: Duration) {
        self.stage = stage
        self.target = target
        self.minClients = minClients
        self.timeout = timeout
    }

    /// nil while it goes on.
    ///
    /// - Parameters:
    ///   - isNewest: no newer version was announced.
    ///   - waited: since somebody began to wait.
    package func verdict(on way: Propagation, isNewest: Bool, waited: Duration) -> Reason? {
        let (count, awaited) = way.share(of: stage)
        let audience = stage.isOfClients ? way.clients.audience : way.streams.streams
        // Until all loops have told, an empty audience means nothing.
        if way.isCounted {
            if audience < minClients || (awaited == 0 && audience > 0) { return .noAudience }
            if Double(count) >= target * Double(awaited) - 1e-9 { return .reached }
        }
        if !isNewest { return .superseded }
        return waited >= timeout ? .timeout : nil
    }
}

extension Call {
    /// `GET remoteConfig/propagation:watch`.
    func watchPropagation() async throws(GoogleError) -> Answer {
        let resource = try template()
        let follows = try query.flag("follow")
        let wanted = try query.versionNumber("versionNumber")
        guard let way = try await control.propagation(resource, wanted), way.isFromMemory || follows else {
            if follows { return feed(resource.scope, nil, nil) }
            throw .notKnown(wanted ?? control.store.currentTemplates[resource.scope]?.version ?? 0)
        }
        if follows { return feed(resource.scope, nil, nil) }
        return feed(resource.scope, way.version, try goal(way))
    }

    private func goal(_ way: Propagation) throws(GoogleError) -> PropagationGoal {
        let asked = try choice("stage", among: Propagation.Stage.allCases)
        if let asked, asked.isOfClients, way.isMostlyAnonymous {
            throw .invalidField(
                "stage",
                "\(way.clients.unidentifiedStreams) of \(way.streams.streams) streams do not say whose they are, so "
                    + "\(asked.rawValue) cannot be counted: wait for stage=sent, or let clients send client=")
        }
        let stage = asked ?? (way.isMostlyAnonymous || way.clients.audience == 0 ? .sent : .fetched)
        let least = try query.integer("minClients") ?? 0
        guard least >= 0 else { throw .invalidField("minClients", "minClients must not be negative") }
        return PropagationGoal(
            stage: stage, target: try target(), minClients: Int(clamping: least),
            timeout: try timeout() ?? .milliseconds(60_000 + way.fetchWindowMs))
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

    private func feed(_ scope: Scope, _ version: VersionNumber?, _ goal: PropagationGoal?) -> Answer {
        let watch = PropagationWatch(
            control: control, principal: principal, cookie: browser.cookie, presented: Presented(head), scope: scope,
            version: version, goal: goal)
        var answer = Answer(contentType: "text/event-stream", body: [])
        answer.events = EventFeed { await watch.run($0) }
        return answer
    }
}

/// One watcher of a version's way, or with neither version nor goal of whatever is newest.
struct PropagationWatch: Sendable {
    let control: Control
    let principal: Principal?
    /// Of the console's session that opened it; nil for who has a credential of their own.
    let cookie: String?
    /// Else this.
    let presented: Presented
    let scope: Scope
    let version: VersionNumber?
    let goal: PropagationGoal?

    /// At most four events a second.
    private static let pause: Duration = .milliseconds(250)
    private static let heartbeat: Duration = .seconds(15)
    /// A client that takes nothing for so long is let go.
    private static let patience: Duration = .seconds(30)

    func run(_ send: EventFeed.Send) async {
        let start = ContinuousClock.now
        var (said, saidAt, takenAt) = (JSONValue.null, start - Self.heartbeat, start)
        while !Task.isCancelled, isPermitted {
            let way = await control.propagation(of: scope, version)
            let now = ContinuousClock.now
            let event = described(way)
            var isTaken: Bool?
            if let way, let goal, let reason = verdict(way, goal, now - start) {
                isTaken = await send(done(way, goal, reason))
                if isTaken == true { return }
            } else if event.key != said {
                isTaken = await send(SSEEncoder.event("progress", data: event.json.encoded(.wire)))
                if isTaken == true { (said, saidAt) = (event.key, now) }
            } else if now - saidAt >= Self.heartbeat {
                isTaken = await send(SSEEncoder.comment("hb"))
                if isTaken == true { saidAt = now }
            }
            if isTaken != false { takenAt = now }
            if now - takenAt > Self.patience { return }
            // Cancelled is the end, and the loop's condition sees it.
            try? await Task.sleep(for: Self.pause)
        }
    }

    /// A key may be revoked while it watches, and a token or a session come to its end.
    private var isPermitted: Bool {
        guard let presented = cookie.map({ control.sessions.held($0) }) ?? presented else { return false }
        guard let principal, [.key, .token, .certificate].contains(principal.kind) else {
            // The control token has no number to ask for.
            do { return try control.access.admit(presented, at: .control).may(.read, in: scope) } catch { return false }
        }
        return control.access.standing(of: principal.number)?.may(.read, in: scope) ?? false
    }

    /// What is sent, and what of it is news when it changes.
    private func described(_ way: Propagation?) -> (json: JSONValue, key: JSONValue) {
        var object = way?.json(hasCurve: goal == nil) ?? Propagation.nothing
        let json = JSONValue.object(object)
        object["ageSeconds"] = nil
        object["curve"] = nil
        return (json, .object(object))
    }

    private func verdict(_ way: Propagation, _ goal: PropagationGoal, _ waited: Duration) -> PropagationGoal.Reason? {
        let newest = control.hub.propagation.propagation(of: scope)?.version
        return goal.verdict(on: way, isNewest: newest == way.version, waited: waited)
    }

    private func done(_ way: Propagation, _ goal: PropagationGoal, _ reason: PropagationGoal.Reason) -> [UInt8] {
        let (count, awaited) = way.share(of: goal.stage)
        var object: JSONObject = [
            "reason": .string(reason.rawValue), "versionNumber": .string(String(way.version)),
            "atStage": .string(goal.stage.rawValue), "target": .double(goal.target),
        ]
        object["share"] = awaited > 0 ? .double((Double(count) / Double(awaited) * 1e6).rounded() / 1e6) : .null
        if reason == .reached, awaited == 0 { object["remark"] = "nobody was connected who would hear of it" }
        object["propagation"] = .object(way.json(hasCurve: true))
        return SSEEncoder.event("done", data: JSONValue.object(object).encoded(.wire))
    }
}
