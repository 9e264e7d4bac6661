package import StalecastHub
package import StalecastWire

/// Facts: announcements, registrations and requests.
extension DeliveryState {
    // MARK: The beginning

    /// The first fact: what is stored, and what the last run left.
    ///
    /// - Parameters:
    ///   - changes: the newest stored changes of all scopes, oldest first within a scope; all of them where the image
    ///     ``DeliveryImage/needsAll(_:bound:)``.
    ///   - opened: when this run began, before it could make a webhook of its own.
    package mutating func begin(
        _ webhooks: [Webhook], _ changes: [TemplateChange], _ image: DeliveryImage, opened: Timestamp, at now: Moment
    ) {
        // Versions that were announced before this fact came are newer than the stored ones.
        let early = logs.values.flatMap(\.entries)
        logs = [:]
        for change in changes { logs[change.scope, default: ScopeLog()].know(change) }
        for (change, time) in early { logs[change.scope, default: ScopeLog()].append(change, at: time) }
        let stored = Dictionary(grouping: changes, by: \.scope)
        for webhook in webhooks {
            spread(enter(webhook, image, stored, isOld: webhook.createdAt < opened), of: webhooks.count, at: now)
        }
        // The registry lost these since the last run, for example to an edit of the configuration file.
        for id in image.ids.subtracting(webhooks.map(\.id)).sorted() { put(.removed(id)) }
    }

    /// First attempts after a start come one after the other, 2 ms apart on average.
    private mutating func spread(_ endpoint: Endpoint, of count: Int, at now: Moment) {
        let span = min(configuration.pace.startSpread.nanoseconds, UInt64(count) * 2_000_000)
        endpoint.gate.notBefore = now.monotonic + UInt64.random(in: 0...span, using: &random)
        touch(endpoint, at: now.monotonic)
    }

    private mutating func enter(
        _ webhook: Webhook, _ image: DeliveryImage, _ stored: [Scope: [TemplateChange]], isOld: Bool
    ) -> Endpoint {
        let endpoint = endpoints.add(webhook)
        var isMoved = false
        if let health = image.health[webhook.id] {
            isMoved = health.receiver.map { $0 != webhook.receiverDigest } ?? false
            if isMoved { putHealth(endpoint) } else { endpoint.health = health }
        }
        let lanes = image.lanes[webhook.id] ?? [:]
        for scope in lanes.keys.sorted() { addLane(endpoint, scope, lanes[scope], stored[scope] ?? []) }
        // What its topics are bound to since it was told of other scopes is nothing that was published behind its back.
        let told = lanes.values.map(\.record.cursor.sequence).max() ?? 0
        setLanes(endpoint, owesNewestOf: isOld ? stored : nil, sinceFrom: told)
        for lane in endpoint.lanes.indices { rederive(endpoint, lane, from: endpoint.mode, isMoved: isMoved) }
        return endpoint
    }

    // MARK: AssignmentService

    /// Takes over webhooks as their last owner has left them. A webhook without stored state is owed its newest version.
    package mutating func adopted(_ webhooks: [Webhook], _ image: DeliveryImage, at now: Moment) {
        let stored = logs.mapValues { $0.entries.map(\.change) }
        for webhook in webhooks where endpoints[webhook.id] == nil {
            spread(enter(webhook, image, stored, isOld: true), of: webhooks.count, at: now)
        }
    }

    /// Nothing more begins for them; what is under way goes on.
    package mutating func retired(_ ids: Set<WebhookID>) { for id in ids { endpoints[id]?.isLeaving = true } }

    /// Whether an attempt at one of them is under way.
    package func isBusy(_ ids: Set<WebhookID>) -> Bool {
        ids.contains { endpoints[$0].map { $0.inFlight > 0 } ?? false }
    }

    /// Drops webhooks that are another node's now, with all that is owed to them.
    package mutating func dropped(_ ids: Set<WebhookID>) { for id in ids { leave(id) } }

    // MARK: Versions

    /// A version was committed, of which only some stages of its release are told.
    package mutating func passed(over change: TemplateChange) {
        logs[change.scope, default: ScopeLog()].pass(over: change)
    }

    package mutating func announced(_ change: TemplateChange, at now: UInt64) {
        let isFirst = logs[change.scope]?.newest == nil
        let change = logs[change.scope, default: ScopeLog()].append(change, at: now)
        let heard = routes.filter { $1.scopes.contains(change.scope) && $1.hears(change) }.mapValues {
            ScopeLog.Heard(change: change, topic: $0.name, announcedAt: now)
        }
        // Nearly all webhooks have the same topics, so that one answer serves them all.
        var last: (topics: [TopicName], heard: ScopeLog.Heard?) = ([], nil)
        var gone = 0
        for number in members[change.scope] ?? [] {
            guard let endpoint = endpoints[number], let lane = endpoint.lane(change.scope) else {
                gone += 1
                continue
            }
            if isFirst, endpoint.lanes[lane].begins(before: change) { putLane(endpoint, lane) }
            guard endpoint.lanes[lane].isActive else { continue }
            if endpoint.topics != last.topics {
                last = (endpoint.topics, endpoint.topics.lazy.compactMap { heard[$0] }.first)
            }
            if let heard = last.heard {
                endpoint.lanes[lane].hear(heard, endpoint.mode)
                if endpoint.mode == .latest { endpoint.pullForward(configuration.pace, now) }
            } else if endpoint.mode == .latest, endpoint.lanes[lane].newest != nil {
                continue
            }
            touch(endpoint, at: now)
        }
        if gone > 0 { members[change.scope]?.removeAll { endpoints[$0] == nil } }
    }

    package mutating func rebound(_ routes: [TopicBinding], at now: UInt64) {
        self.routes = Dictionary(uniqueKeysWithValues: routes.map { ($0.name, $0) })
        for endpoint in endpoints.all {
            setLanes(endpoint)
            for lane in endpoint.lanes.indices { rederive(endpoint, lane, from: endpoint.mode, isMoved: false) }
            touch(endpoint, at: now)
        }
    }

    // MARK: Webhooks

    package mutating func installed(_ webhook: Webhook, at now: UInt64) {
        guard let endpoint = endpoints[webhook.id] else {
            let endpoint = endpoints.add(webhook)
            setLanes(endpoint, sinceFrom: 0)
            return touch(endpoint, at: now)
        }
        let before = endpoint.webhook
        endpoint.webhook = webhook
        endpoints.noteTopics(of: endpoint)
        let isMoved = !webhook.goesWhere(before)
        if isMoved { leaveReceiver(endpoint) }
        if webhook.isDeliverable != before.isDeliverable { endpoint.trouble.failingMark = 0 }
        if webhook.isDeliverable, !before.isDeliverable { endpoint.hurry() }
        setLanes(endpoint, sinceFrom: 0)
        if isMoved || webhook.mode != before.mode || webhook.topics != before.topics {
            for lane in endpoint.lanes.indices { rederive(endpoint, lane, from: before.mode, isMoved: isMoved) }
        }
        touch(endpoint, at: now)
    }

    package mutating func removed(_ id: WebhookID) {
        // On one node of several the database has rows of webhooks to which another node delivers.
        if leave(id) || permits != nil { put(.removed(id)) }
    }

    @discardableResult private mutating func leave(_ id: WebhookID) -> Bool {
        guard let endpoint = endpoints.remove(id) else { return false }
        for attempt in endpoint.attempts { act(.cancel(attempt)) }
        return true
    }

    /// An operator says that it works again: clears disablement and waits, and owes at once. Whether that was right is
    /// told by the first 2xx. False for a webhook that is not there.
    package mutating func enabled(_ id: WebhookID, at now: UInt64) -> Bool {
        guard let endpoint = endpoints[id] else { return false }
        relieve(endpoint)
        touch(endpoint, at: now)
        return true
    }

    private mutating func relieve(_ endpoint: Endpoint) {
        let isTold = endpoint.health.disabledReason != nil || endpoint.health.failures >= Self.failuresWorthANotice
        if isTold, let since = endpoint.health.failingSince ?? endpoint.health.disabledSince {
            // Enabled twice without a 2xx in between, it fails since before the first time.
            endpoint.trouble.onTrialSince = min(endpoint.trouble.onTrialSince ?? since, since)
        }
        endpoint.forgive()
        endpoint.gate.patienceUntil = 0
        endpoint.hurry()
        putHealth(endpoint)
    }

    /// Owes stored versions of a scope again, besides what is owed anyway.
    ///
    /// - Parameters:
    ///   - sequences: ascending.
    ///   - isStored: the database holds them as extras already.
    package mutating func owe(
        _ id: WebhookID, _ scope: Scope, _ sequences: [CommitSequence], isStored: Bool, at now: UInt64
    ) {
        guard let endpoint = endpoints[id], let lane = endpoint.lane(scope) else { return }
        let extras = endpoint.lanes[lane].owe(sequences, endpoint.mode)
        let others = sequences.filter { !endpoint.lanes[lane].extras.contains($0) }
        if isStored, !others.isEmpty { put(.extras(id, scope, others, areOwed: false)) }
        // Extras that the database has are journalled again, because a successor on another node has another database.
        if !extras.isEmpty { put(.extras(id, scope, extras, areOwed: true)) }
        endpoint.hurry()
        touch(endpoint, at: now)
    }

    /// Another node gave it the topics of a scope, and versions may have come before this one heard of it.
    private func since(_ webhook: Webhook, _ scope: Scope) -> CommitSequence? {
        let topics = webhook.topics.filter { routes[$0]?.scopes.contains(scope) ?? false }
        let known = topics.compactMap { webhook.since[$0]?.sequence }
        return permits == nil || known.count < topics.count ? nil : known.min()
    }

    /// Forgets the former receiver after the webhook's target changed: nothing of it counts, and nothing more goes
    /// there.
    private mutating func leaveReceiver(_ endpoint: Endpoint) {
        endpoint.generation += 1
        endpoint.isKnown = false
        endpoint.trouble.lastFailure = nil
        endpoint.gate.patienceUntil = 0
        for attempt in endpoint.attempts { act(.cancel(attempt)) }
        if endpoint.health != JournalEntry.TargetHealth() || endpoint.trouble.rejections > 0 { relieve(endpoint) }
    }

    mutating func putHealth(_ endpoint: Endpoint) {
        endpoint.health.receiver = endpoint.webhook.receiverDigest
        put(.health(endpoint.id, endpoint.health))
    }

    // MARK: Lanes

    /// One lane for each scope that its topics are about; those of others keep their place and wait.
    ///
    /// - Parameter least: of ``Webhook/since``, for it to count; nil: it does not.
    private mutating func setLanes(
        _ endpoint: Endpoint, owesNewestOf stored: [Scope: [TemplateChange]]? = nil,
        sinceFrom least: CommitSequence? = nil
    ) {
        let interest = ScopeLog.Interest(topics: endpoint.webhook.topics, routes: routes)
        let scopes = Set(endpoint.webhook.topics.flatMap { routes[$0]?.scopes ?? [] }).filter(endpoint.webhook.covers)
        for scope in scopes.sorted() where endpoint.lane(scope) == nil {
            var since = least == nil ? nil : self.since(endpoint.webhook, scope)
            if let least, let known = since, known < least { since = nil }
            addLane(endpoint, scope, nil, stored.map { $0[scope] ?? [] }, since: since)
        }
        for lane in endpoint.lanes.indices {
            endpoint.lanes[lane].isActive = scopes.contains(endpoint.lanes[lane].scope)
            if endpoint.lanes[lane].newest == nil {
                endpoint.lanes[lane].findNewest(endpoint.mode, logs[endpoint.lanes[lane].scope] ?? ScopeLog(), interest)
            }
        }
    }

    /// A lane that is new is owed what comes from now on, or what came `since`; what is stored in another history or
    /// not at all, although the webhook is old, is owed the newest version once.
    private mutating func addLane(
        _ endpoint: Endpoint, _ scope: Scope, _ stored: DeliveryImage.StoredLane?, _ changes: [TemplateChange]?,
        since: CommitSequence? = nil
    ) {
        let log = logs[scope] ?? ScopeLog()
        var lane = stored ?? DeliveryImage.StoredLane(from: log.end, acknowledged: log.end)
        let isRenewed = stored?.isRenewed ?? true
        if stored == nil, let place = since.flatMap({ log.place(after: $0) }) {
            lane = DeliveryImage.StoredLane(from: place, acknowledged: place)
        } else if isRenewed, let changes {
            let interest = ScopeLog.Interest(topics: endpoint.webhook.topics, routes: routes)
            let newest = changes.last { interest.topic(of: $0) != nil }
            lane = DeliveryImage.StoredLane(
                from: newest.map { ScopeLog.Place(before: $0) } ?? log.end, acknowledged: .start)
        }
        endpoint.lanes.append(Lane(scope, lane))
        members[scope, default: []].append(endpoint.number)
        if stored == nil || isRenewed { putLane(endpoint, endpoint.lanes.count - 1) }
    }

    /// Its terms have changed: the lane follows, and what has to be remembered is written.
    private mutating func rederive(_ endpoint: Endpoint, _ lane: Int, from former: DeliveryMode, isMoved: Bool) {
        let scope = endpoint.lanes[lane].scope
        let before = endpoint.lanes[lane].record
        let extra = endpoint.lanes[lane].rederive(
            endpoint.mode, from: former, isMoved: isMoved, logs[scope] ?? ScopeLog(),
            ScopeLog.Interest(topics: endpoint.webhook.topics, routes: routes))
        if let extra { put(.extras(endpoint.id, scope, [extra], areOwed: true)) }
        if endpoint.lanes[lane].record != before { putLane(endpoint, lane) }
    }
}
