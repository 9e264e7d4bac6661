import StalecastHTTP
package import StalecastHub
import StalecastStore
import StalecastWebhooks
package import StalecastWire

extension Call {
    func json(_ object: JSONObject, etag: String? = nil) -> Answer { document(.object(object), etag: etag) }

    /// Answers with a document, in several lines where the query asks for that.
    func document(_ document: JSONValue, etag: String? = nil) -> Answer {
        var answer = Answer(contentType: Answer.jsonType, body: document.encoded(wantsPretty ? .pretty : .utf8Line))
        if let etag { answer.add("ETag", etag) }
        return answer
    }

    private var book: RolloutTracker { control.hub.propagation }

    /// `GET remoteConfig/propagation`: how far a version has come, as of now. Of one that is no longer in memory what
    /// the store has.
    func propagation() async throws(GoogleError) -> Answer {
        let resource = try template()
        let wanted = try query.versionNumber("versionNumber")
        guard let found = try await control.propagation(resource, wanted) else {
            if let wanted { throw .notKnown(wanted) }
            var object = RolloutStatus.nothing
            object["webhooks"] = await control.webhooks.reach(of: resource.scope, 0).json
            return json(object)
        }
        var object = found.json(hasCurve: true)
        let newest = control.store.currentTemplates[resource.scope]?.change
        if newest?.version == found.version, let keys = newest?.changedKeys { object.set(changedKeys: keys) }
        let release = newestRelease(of: resource)
        if wanted == nil || release?["versionNumber"]?.versionNumber == found.version { object["release"] = release }
        guard found.isFromMemory else { return json(object) }
        if found.isPartial { object["beforeRestart"] = try await beforeRestart(found.version, of: resource) }
        object["herd"] = control.hub.herd(of: resource.scope)?.json
        object["polls"] = ["answered": .int(found.streams.polls)]
        if found.streams.nanoseconds > 0 {
            object["milliseconds"] = .double((Double(found.streams.nanoseconds) / 1e3).rounded() / 1e3)
        }
        object["webhooks"] = await control.webhooks.reach(of: resource.scope, found.version).json
        return json(object)
    }

    /// Names the newest release in stages, its state, and the percent of the clients that were told; nil where no
    /// version was ever staged.
    private func newestRelease(of resource: TemplateResource) -> JSONValue? {
        resource.store.release(of: resource.scope).map {
            [
                "versionNumber": .string(String($0.version)), "state": .string($0.state.rawValue),
                "percent": Percentage.json($0.told),
            ]
        }
    }

    /// Progress of a version that the process before this one saw; nil where it could not write that down.
    private func beforeRestart(
        _ version: VersionNumber, of resource: TemplateResource
    ) async throws(GoogleError) -> JSONValue? {
        guard let json = try await stored(resource, version, limit: 1).first?.json(hasCurve: false) else { return nil }
        var object = JSONObject()
        for name in ["streams", "clients", "times"] { object[name] = json[name] }
        return .object(object)
    }

    private func stored(
        _ resource: TemplateResource, _ version: VersionNumber?, limit: Int
    ) async throws(GoogleError) -> [RolloutStatus] {
        let (scope, store) = (resource.scope, resource.store)
        return try await resource.store(try await store.propagations(of: scope, version, limit: limit))
            .compactMap(RolloutStatus.init)
    }

    /// `GET remoteConfig/propagation:list`: those in memory, then those in the store. What the store has of a version
    /// of before a restart is more than what is in memory.
    func propagations() async throws(GoogleError) -> Answer {
        let resource = try template()
        let size = try pageSize(20, most: 300)
        _ = await control.reports.reach(resource.scope)
        var found = Array(book.propagations(of: resource.scope).prefix(size))
        let newest = control.store.currentTemplates[resource.scope]?.version
        if found.count < size || found.contains(where: \.isPartial) {
            let known = Set(found.filter { !$0.isPartial }.map(\.version))
            let rows = try await stored(resource, nil, limit: size).filter { !known.contains($0.version) }
            let told = Set(rows.map(\.version))
            found = found.filter { !told.contains($0.version) } + rows.map { $0.ended(newest: newest) }
            found.sort { $0.version > $1.version }
        }
        let rows = found.prefix(size)
        let changes = try await changes(of: resource, rows)
        let release = newestRelease(of: resource)
        return json([
            "propagations": .array(
                rows.map { row in
                    var object = row.json(hasCurve: false)
                    if let keys = changes[row.version] { object.set(changedKeys: keys) }
                    if release?["versionNumber"]?.versionNumber == row.version { object["release"] = release }
                    return .object(object)
                })
        ])
    }

    /// Names of the parameters that versions changed; nothing of versions that are not stored any more.
    private func changes(
        of resource: TemplateResource, _ rows: ArraySlice<RolloutStatus>
    ) async throws(GoogleError) -> [VersionNumber: [String]] {
        let (scope, store) = (resource.scope, resource.store)
        let found = try await resource.store(try await store.newestChanges(of: scope, limit: rows.count))
        return Dictionary(found.compactMap { change in change.changedKeys.map { (change.version, $0) } }) { $1 }
    }

    /// The query's `pageSize`.
    ///
    /// - Parameter usual: counts where the query has none.
    func pageSize(_ usual: Int, most: Int) throws(GoogleError) -> Int {
        let size = try query.integer("pageSize") ?? Int64(usual)
        guard size > 0 else { throw .invalidField("pageSize", "pageSize must be greater than 0") }
        return Int(min(size, Int64(most)))
    }

    // MARK: Clients

    /// `GET remoteConfig/propagation:laggards`.
    func laggards() throws(GoogleError) -> Answer {
        let scope = try template().scope
        let version = try query.versionNumber("versionNumber")
        let stage = try choice("stage", among: [.fetched, .active]) ?? RolloutStatus.Stage.fetched
        var object: JSONObject = [
            "versionNumber": .string(String(version ?? control.store.currentTemplates[scope]?.version ?? 0)),
            "stage": .string(stage.rawValue),
        ]
        if let name = query["client"] {
            guard let identity = ClientIdentity(name) else {
                throw .invalidField("client", "client must be an id: 1 to 128 characters of A-Z a-z 0-9 . _ ~ : @ -")
            }
            let client = book.client(identity, in: scope, version)
            object["total"] = .int(client == nil ? 0 : 1)
            object["laggards"] = .array(client.map { [$0.json] } ?? [])
            return json(object)
        }
        if let trait = try choice("groupBy", among: ClientGroups.Trait.allCases) {
            let found = book.laggards(of: scope, version, stage: stage, by: trait, address: Self.address)
            if found == nil, let version { throw .notKnown(version) }
            object["total"] = .int(found?.total ?? 0)
            object["groups"] = (found?.groups ?? ClientGroups()).json(limit: 1000)
            return json(object)
        }
        let found = book.laggards(of: scope, version, stage: stage, limit: try pageSize(100, most: 1000))
        if found == nil, let version { throw .notKnown(version) }
        object["total"] = .int(found?.total ?? 0)
        object["laggards"] = .array(found?.clients.map(\.json) ?? [])
        return json(object)
    }

    func choice<Choice: RawRepresentable<String>>(
        _ name: String, among choices: [Choice]
    ) throws(GoogleError) -> Choice? {
        guard let text = query[name] else { return nil }
        guard let choice = choices.first(where: { $0.rawValue == text }) else {
            throw .invalidField(
                name, "\(name) must be one of \(choices.map(\.rawValue).joined(separator: ", "))")
        }
        return choice
    }

    /// `GET remoteConfig/audience`: who would hear of a change now. A stream of several topics counts for each.
    func audience() async throws(GoogleError) -> Answer {
        let scope = try template().scope
        let board = control.hub.board
        let wanted = query["topic"].map { name in
            board.topics.indices.filter { board.topics[$0].name.description == name }
        }
        let own = (wanted ?? Array(board.topics.indices)).filter {
            board.topics[$0].scope == scope && !board.topics[$0].isRetired && board.topics[$0].base == nil
        }
        if own.isEmpty, let name = query["topic"] {
            throw .notFound("Requested entity was not found: no topic \(name).")
        }
        let presence = await control.reports.presence(scope.project, scope.namespace)
        var (streams, polls, streamsHere) = (0, 0, 0)
        let topics = own.map { index -> JSONValue in
            let topic = board.topics[index]
            let counts = presence[topic.name] ?? [:]
            let held = counts[Transport.poll.rawValue] ?? 0
            let open = counts.values.reduce(0, +) - held
            (streams, polls) = (streams + open, polls + held)
            // The counts of topics have a stream for each of its topics, those of clients have it once.
            streamsHere = max(streamsHere, open - (counts["otherNodes"] ?? 0))
            let name = topic.isInvalidation ? "firebase" : topic.name.description
            return ["name": .string(name), "streams": .int(open), "polls": .int(held)]
        }
        let names = Set(own.map { board.topics[$0].name })
        let webhooks = control.webhooks.registry.webhooks.count { webhook in
            webhook.covers(scope) && webhook.isDeliverable && webhook.topics.contains(where: names.contains)
        }
        let heard = wanted.map { _ in board.withStages(own.map(Topic.Index.init)) }
        let clients = book.audience(of: scope, topics: heard)
        var object: JSONObject = [
            "streams": .int(streams), "polls": .int(polls), "webhooks": .int(webhooks),
            "clients": .int(clients.clients), "clientsSeen": .int(clients.seen),
            "topics": .array(topics),
            "held": .array(
                clients.held.counts.prefix(20).map { ["versionNumber": .string($0.key), "clients": .int($0.count)] }),
            "apps": clients.apps.json(limit: 20), "sdks": clients.sdks.json(limit: 20),
            "fetchWindowMs": .int(control.hub.herd(of: scope)?.windowMs ?? 0),
        ]
        // A cluster counts streams of all nodes and clients of this one: their difference means nothing.
        if !book.hasOtherNodes { object["unidentifiedStreams"] = .int(max(0, streams - clients.streams)) }
        object["thisNode"] = [
            "streams": .int(streamsHere), "unidentifiedStreams": .int(max(0, streamsHere - clients.streams)),
        ]
        return json(object)
    }

    /// Address as people write it; of IPv6 the network's first 48 bits, for more is not known.
    static func address(_ key: UInt64) -> String {
        let bytes = (0..<8).map { UInt8(truncatingIfNeeded: key >> UInt64($0 * 8)) }
        if key <= UInt64(UInt32.max) { return bytes.prefix(4).map { String($0) }.joined(separator: ".") }
        if bytes.dropLast().allSatisfy({ $0 == 0 }) { return "::1" }
        let words = stride(from: 0, to: 6, by: 2).map { String(Int(bytes[$0]) << 8 | Int(bytes[$0 + 1]), radix: 16) }
        return words.joined(separator: ":") + "::/48"
    }
}

extension Control {
    /// Progress as of now, from memory. Of a version of before this process the streams are those that are here.
    func propagation(of scope: Scope, _ version: VersionNumber?) async -> RolloutStatus? {
        let reach = await reports.reach(scope)
        guard var found = hub.propagation.propagation(of: scope, version), found.isPartial else {
            return hub.propagation.propagation(of: scope, version)
        }
        if found.state != .superseded {
            found.streams = reach
            found.streams.merge(hub.propagation.reachElsewhere(of: scope, found.version))
            found.clients.unidentifiedStreams = max(0, found.streams.streams - found.identifiedStreams)
        }
        // A clock that was put back makes no age below 0.
        let age = max(0, Timestamp.now().microseconds - found.announceTime.microseconds)
        found.ageSeconds = Double(age / 1000) / 1000
        return found
    }

    /// A version's way as of now; nil where nothing is known of it.
    func propagation(
        _ resource: TemplateResource, _ version: VersionNumber?
    ) async throws(GoogleError) -> RolloutStatus? {
        if let found = await propagation(of: resource.scope, version) { return found }
        let newest = store.currentTemplates[resource.scope]?.version
        guard let version = version ?? newest else { return nil }
        let (scope, store) = (resource.scope, resource.store)
        return try await resource.store(try await store.propagations(of: scope, version)).first
            .flatMap(RolloutStatus.init)?.ended(newest: newest)
    }
}

extension GoogleError {
    static func notKnown(_ version: VersionNumber) -> GoogleError {
        .notFound("Requested entity was not found: there is no rollout status of version \(version).")
    }
}

extension ClientGroups {
    func json(limit: Int) -> JSONValue {
        .array(counts.prefix(limit).map { ["key": .string($0.key), "count": .int($0.count)] })
    }
}

extension KnownClient {
    var json: JSONValue {
        let seen = Timestamp.now().microseconds - Int64(secondsUnseen * 1e6)
        return [
            "client": id.map(JSONValue.string), "address": address.map { .string(Call.address($0)) },
            "app": app.isEmpty ? nil : .string(app), "sdk": sdk.isEmpty ? nil : .string(sdk),
            "held": held > 0 ? .string(String(held)) : nil, "active": active > 0 ? .string(String(active)) : nil,
            "behindSince": behindSince.map { .string($0.description) },
            "lastSeen": .string(Timestamp(microseconds: seen).description), "live": .bool(isLive),
            "state": .string(state.rawValue), "error": error.isEmpty ? nil : .string(error),
        ]
    }
}

extension RolloutStatus {
    fileprivate init?(_ row: PropagationRow) { self.init(record: row.record, of: row.version) }

    /// A row that was written at the end of a process, as of now: a newer version may have followed it.
    fileprivate func ended(newest: VersionNumber?) -> RolloutStatus {
        guard state == .spreading, let newest, newest > version else { return self }
        var rolloutStatus = self
        rolloutStatus.state = .superseded
        return rolloutStatus
    }

    /// Answer for a scope without versions.
    static let nothing: JSONObject = [
        "versionNumber": "0", "state": .string(State.converged.rawValue), "partial": false,
        "streams": StreamCounts().json,
        "clients": Clients().json, "polls": ["answered": 0],
    ]

    func json(hasCurve: Bool) -> JSONObject {
        var object: JSONObject = [
            "versionNumber": .string(String(version)), "previousVersionNumber": previous.map { .string(String($0)) },
            "announceTime": .string(announceTime.description), "ageSeconds": .double(ageSeconds),
            "state": .string(state.rawValue), "partial": .bool(isPartial), "fetchWindowMs": .int(fetches.windowMs),
            "streams": streams.json, "clients": clients.json,
            "times": ["sent": sent.json, "fetched": fetched.json, "active": active.json],
        ]
        guard isFromMemory else { return object }
        object["counted"] = .bool(isCounted)
        if hasCurve, !isPartial { object["curve"] = curve }
        object["fetches"] = [
            "answers": .int(fetches.answers), "errors": .int(fetches.errors),
            "peakPerSecond": .int(fetches.peakPerSecond),
        ]
        return object
    }

    /// Sums by time, up to the end of the present bucket.
    private var curve: JSONValue {
        var buckets = 1
        while buckets < StageTimes.buckets, StageTimes.bound(buckets - 1) < ageSeconds { buckets += 1 }
        func sums(_ stageTimes: StageTimes) -> JSONValue {
            var sum = 0
            return .array(
                (0..<buckets).map { bucket in
                    sum += bucket < stageTimes.counts.count ? Int(stageTimes.counts[bucket]) : 0
                    return .int(sum)
                })
        }
        return [
            "at": .array((0..<buckets).map { .double((StageTimes.bound($0) * 1e5).rounded() / 1e5) }),
            "sent": sums(sent),
            "fetched": sums(fetched), "active": sums(active),
        ]
    }
}

extension WebhookCounts {
    fileprivate var json: JSONValue {
        ["owed": .int(owed), "delivered": .int(delivered), "failing": .int(failing)]
    }
}

extension Hub.Herd {
    package var json: JSONValue {
        [
            "windowMs": .int(windowMs), "pacedOverMs": .int(pacedOverMs), "subscribers": .int(subscribers),
            "configuredBudget": .int(configuredBudget),
            "budget": .int(budget),
            "fetchesPerStream": fetchesPerStream.map { .double(($0 * 1000).rounded() / 1000) } ?? .null,
        ]
    }
}

extension StreamCounts {
    var json: JSONValue {
        [
            "audience": .int(streams), "sent": .int(told), "received": .int(received),
            "receivedUnknown": .int(receivedUnknown), "backlogged": .int(backlogged), "left": .int(left),
            "joined": .int(joined),
        ]
    }
}

extension RolloutStatus.Clients {
    var json: JSONValue {
        var object: JSONObject = [
            "audience": .int(audience), "fetched": .int(fetched), "active": .int(active), "failed": .int(failed),
            "behind": .int(behind), "left": .int(left), "unknown": .int(unknown),
            "unidentifiedStreams": .int(unidentifiedStreams),
            "sampling": ["rate": .double(1 / Double(weight)), "error": .double((error * 1e6).rounded() / 1e6)],
        ]
        // Absent as in answers of release 0.2.0, which mean the same.
        if isLostKnown { object["lost"] = .int(lost) }
        return .object(object)
    }
}

extension StageTimes {
    var json: JSONValue {
        func seconds(_ nanoseconds: UInt64?) -> JSONValue {
            nanoseconds.map { .double((Double($0) / 1e5).rounded() / 1e4) } ?? .null
        }
        return ["t50": seconds(t50), "t95": seconds(t95), "t99": seconds(t99), "last": seconds(last)]
    }
}

extension JSONObject {
    /// Sets the names of changed parameters, the first ones, and their count.
    fileprivate mutating func set(changedKeys keys: [String]) {
        self["changedKeys"] = .texts(keys.prefix(StaleMessage.maxChangedKeys))
        self["changedKeyCount"] = .int(keys.count)
    }
}
