import Dispatch
import Logging
import StalecastOutbound
import StalecastWire

extension DeliveryScheduler {
    // MARK: Versions

    /// What the store holds at start, oldest first within a scope.
    func know(_ changes: [TemplateChange]) {
        for change in changes { logs[change.scope, default: ScopeLog()].append(change) }
    }

    /// A version was committed.
    func announce(_ change: TemplateChange, _ now: UInt64) {
        let previous = logs[change.scope]?.newest?.sequence ?? 0
        logs[change.scope, default: ScopeLog()].append(change)
        let heard = heardTopics(of: change)
        for lane in lanes[change.scope] ?? [] {
            let topic = lane.target.webhook.topics.first { heard.contains($0) }
            if let topic { lane.newest = Heard(change: change, topic: topic, announcedAt: now) }
            if lane.target.mode == .latest {
                if topic == nil { continue }
                pullForward(lane.target, now)
            } else {
                extend(lane, topic.map { Heard(change: change, topic: $0, announcedAt: now) }, change, after: previous)
            }
            consider(lane.target, now)
        }
    }

    private func heardTopics(of change: TemplateChange) -> Set<TopicName> {
        Set(routes.values.filter { $0.scopes.contains(change.scope) && $0.hears(change) }.map(\.name))
    }

    /// A newer version does not end a backoff, but allows a try twice a minute.
    private func pullForward(_ target: Target, _ now: UInt64) {
        guard target.failures > 0 else { return }
        let probe = target.lastFailureAt + configuration.pace.probeAfter.nanoseconds
        guard target.notBefore > max(now, probe), !target.isAskedForPatience else { return }
        target.notBefore = max(now, probe)
    }

    /// Appends a committed version to what is owed, if all before it is there; otherwise it is read later.
    private func extend(_ lane: Lane, _ heard: Heard?, _ change: TemplateChange, after previous: CommitSequence) {
        guard lane.readThrough >= previous, lane.owed.count < Lane.window, !lane.isReading else { return refill(lane) }
        (lane.readVersion, lane.readThrough) = (change.version, change.sequence)
        if let heard { lane.owed.append(Owed(heard: heard)) } else { skipIfIdle(lane, change) }
    }

    /// Nothing is owed and the version concerns nobody here: the cursor passes it.
    private func skipIfIdle(_ lane: Lane, _ change: TemplateChange) {
        guard lane.owed.allSatisfy(\.isExtra) else { return }
        lane.acknowledged = (change.version, change.sequence)
    }

    /// Reads on when few owed versions are left in memory and more are in the store.
    func refill(_ lane: Lane) {
        guard lane.target.mode != .latest, lane.owed.count <= Lane.window / 2, !lane.isReading,
            let log = logs[lane.scope], let newest = log.newest, lane.readThrough < newest.sequence
        else { return }
        if let known = log.changes(after: lane.readThrough) {
            take(Array(known.prefix(Lane.window)), lane)
        } else {
            read(lane)
        }
    }

    private func read(_ lane: Lane) {
        lane.isReading = true
        let box = Unchecked(lane)
        let (scope, after, history, engine) = (lane.scope, lane.readThrough, history, engine)
        DeliveryReading.queue.async {
            let oldest = history(scope, 0, 1).first
            let changes = history(scope, after, Lane.window)
            engine.perform {
                box.value.isReading = false
                guard !box.value.target.isRemoved else { return }
                // The newest version is always kept, so the store could not be read.
                guard let oldest, !changes.isEmpty else { return self.readLater(box.value) }
                self.miss(box.value, before: oldest)
                self.take(changes, box.value)
                self.consider(box.value.target)
            }
        }
    }

    private func readLater(_ lane: Lane) {
        let box = Unchecked(lane)
        engine.at(OutboundEngine.now() + Self.rereadAfter) {
            self.refill(box.value)
            self.consider(box.value.target)
        }
    }

    /// In nanoseconds.
    private static let rereadAfter: UInt64 = 5_000_000_000

    /// What the store has removed before it was read for this webhook cannot be sent any more: that is told, each
    /// version by a dead letter, of which the newest ``maxMissed`` are written.
    private func miss(_ lane: Lane, before oldest: TemplateChange) {
        guard oldest.sequence > lane.readThrough, oldest.version > lane.readVersion + 1 else { return }
        let missed = (lane.readVersion + 1)...(oldest.version - 1)
        logger.error(
            "versions were removed by store.maxVersions before a webhook took them",
            metadata: [
                "webhook": "\(lane.target.id)", "scope": "\(lane.scope)",
                "versions": "\(missed.lowerBound)-\(missed.upperBound)",
            ])
        for version in missed.suffix(Self.maxMissed) {
            tally.deadLetters += 1
            let letter = DeadLetter(
                id: 0, scope: lane.scope, version: version, sequence: max(1, lane.readThrough), reason: "pruned",
                attempts: 0, lastStatus: nil, movedAt: .now())
            journal.put(.dead(lane.target.id, letter))
        }
    }

    private static let maxMissed = 1000

    private func take(_ changes: [TemplateChange], _ lane: Lane) {
        for change in changes where change.sequence > lane.readThrough {
            (lane.readVersion, lane.readThrough) = (change.version, change.sequence)
            guard !lane.beyond.contains(change.sequence), let topic = topic(of: change, for: lane.target) else {
                skipIfIdle(lane, change)
                continue
            }
            lane.owed.append(Owed(heard: Heard(change: change, topic: topic, announcedAt: 0)))
        }
    }

    func topic(of change: TemplateChange, for target: Target) -> TopicName? {
        target.webhook.topics.first { name in
            routes[name].map { $0.scopes.contains(change.scope) && $0.hears(change) } ?? false
        }
    }

    // MARK: Webhooks

    /// A webhook is there, or has changed.
    ///
    /// - Parameter delay: before its first attempt, at start.
    func install(_ webhook: Webhook, delay: UInt64 = 0) {
        let target = targets[webhook.id] ?? Target(number: nextNumber(), webhook: webhook)
        let isNew = targets[webhook.id] == nil
        let before = target.webhook
        target.webhook = webhook
        targets[webhook.id] = target
        hearers[webhook.id] = webhook.topics.contains(.webhookOperations) ? target : nil
        if isNew {
            if let health = image.health.removeValue(forKey: webhook.id.description) { target.health = health }
            target.notBefore = delay
        } else if before.url != webhook.url || before.tls != webhook.tls || before.headers != webhook.headers {
            forgive(target)
        }
        setLanes(target)
        consider(target)
    }

    /// What it is sent to has changed: former failures say nothing about it.
    private func forgive(_ target: Target) {
        target.isKnown = false
        guard target.failures > 0 || target.disabled != nil else { return }
        enable(target)
    }

    /// Clears disablement and backoff; what is owed is sent at once. Whether that was right is told by the first 2xx.
    func enable(_ target: Target) {
        let isTold = target.disabled != nil || target.failures >= Self.failuresWorthANotice
        if isTold, let since = target.failingSince ?? target.disabled?.since {
            // Enabled twice without a 2xx in between, it fails since before the first time.
            target.onTrialSince = min(target.onTrialSince ?? since, since)
        }
        target.health = TargetHealth()
        target.goneSince = 0
        target.notBefore = 0
        for lane in target.lanes {
            for index in lane.owed.indices { lane.owed[index].notBefore = 0 }
        }
        journal.put(.health(target.id, target.health))
        consider(target)
    }

    func remove(_ id: WebhookID) {
        guard let target = targets.removeValue(forKey: id) else { return }
        target.isRemoved = true
        hearers[id] = nil
        for lane in target.lanes { drop(lane) }
        target.lanes = []
        target.notices = []
        journal.put(.removed(id))
    }

    /// One lane per scope that its topics are about.
    private func setLanes(_ target: Target) {
        let wanted = Set(target.webhook.topics.flatMap { routes[$0]?.scopes ?? [] }).filter(target.webhook.covers)
        for lane in target.lanes where !wanted.contains(lane.scope) { drop(lane) }
        target.lanes.removeAll { !wanted.contains($0.scope) }
        for scope in wanted.sorted() {
            if let lane = target.lane(scope) {
                rewind(lane)
            } else {
                let lane = makeLane(target, scope)
                target.lanes.append(lane)
                lanes[scope, default: []].append(lane)
            }
        }
    }

    private func drop(_ lane: Lane) { lanes[lane.scope]?.drop(lane) }

    /// After a change of topics or mode.
    private func rewind(_ lane: Lane) {
        lane.newest = newestHeard(lane)
        guard lane.inFlight == 0, !lane.isReading else { return }
        lane.owed.removeAll { !$0.isExtra }
        (lane.readVersion, lane.readThrough) = lane.acknowledged
        refill(lane)
    }

    private func makeLane(_ target: Target, _ scope: Scope) -> Lane {
        let key = DeliveryDatabase.Image.Key(webhook: target.id.description, scope: scope.description)
        let known = image.cursors.removeValue(forKey: key)
        let lane = Lane(target, scope, acknowledged: known.map { ($0.version, $0.sequence) } ?? start(target, scope))
        lane.beyond = image.beyond.removeValue(forKey: key) ?? []
        lane.newest = newestHeard(lane)
        if known == nil {
            journal.put(.acknowledged(target.id, scope, lane.acknowledged.version, lane.acknowledged.sequence))
        }
        refill(lane)
        for sequence in image.extra.removeValue(forKey: key) ?? [] { owe(lane, sequence, isStored: true) }
        return lane
    }

    /// A new webhook is owed what comes from now on. When its cursor was not written before a crash, that is
    /// everything after it was made.
    private func start(_ target: Target, _ scope: Scope) -> (VersionNumber, CommitSequence) {
        let since = target.webhook.createdAt
        let known = logs[scope]?.changes ?? []
        if let last = known.last(where: { $0.metadata.updateTime <= since }) { return (last.version, last.sequence) }
        guard let first = known.first else { return (0, 0) }
        return (first.version - 1, first.sequence - 1)
    }

    private func newestHeard(_ lane: Lane) -> Heard? {
        for change in (logs[lane.scope]?.changes ?? []).reversed() {
            if let topic = topic(of: change, for: lane.target) {
                return Heard(change: change, topic: topic, announcedAt: 0)
            }
        }
        return nil
    }

    /// The configuration's topics, at start and after a reload.
    func rebind(_ routes: [TopicRoute]) {
        self.routes = Dictionary(uniqueKeysWithValues: routes.map { ($0.name, $0) })
        for target in targets.values {
            setLanes(target)
            consider(target)
        }
    }

    // MARK: Versions once more

    /// Owes one stored version again, besides what the cursor says.
    func owe(_ lane: Lane, _ sequence: CommitSequence, isStored: Bool = false) {
        let known = logs[lane.scope]?.changes.first { $0.sequence == sequence }
        if let known { return owe(lane, known, isStored: isStored) }
        let box = Unchecked(lane)
        let (scope, history, engine) = (lane.scope, history, engine)
        DeliveryReading.queue.async {
            let change = history(scope, sequence - 1, 1).first { $0.sequence == sequence }
            engine.perform {
                guard let change else {
                    // The store has not kept it.
                    self.journal.put(.extra(box.value.target.id, scope, sequence, isOwed: false))
                    return
                }
                self.owe(box.value, change, isStored: isStored)
                self.consider(box.value.target)
            }
        }
    }

    func owe(_ lane: Lane, _ change: TemplateChange, isStored: Bool = false) {
        let id = lane.target.id
        let topic = topic(of: change, for: lane.target) ?? lane.target.webhook.topics.first ?? .pushRC
        if lane.target.mode == .latest {
            // Never an older one: versions only grow for a receiver.
            lane.isWanted = true
            lane.givenUp = 0
            if lane.newest == nil { lane.newest = Heard(change: change, topic: topic, announcedAt: 0) }
            if isStored { journal.put(.extra(id, lane.scope, change.sequence, isOwed: false)) }
        } else if !lane.owed.contains(where: { $0.heard.change.sequence == change.sequence }) {
            let heard = Heard(change: change, topic: topic, announcedAt: 0)
            lane.owed.insert(Owed(heard: heard, isExtra: true), at: lane.owed.prefix(while: \.isInFlight).count)
            if !isStored { journal.put(.extra(id, lane.scope, change.sequence, isOwed: true)) }
        }
    }

    // MARK: Messages about webhooks

    func tellDisabled(_ target: Target, _ reason: String) {
        let data: JSONValue = [
            "webhook": .string(target.id.description), "url": .string(target.webhook.url.withoutQuery),
            "reason": .string(reason), "failedAttempts": .int(target.failedAttempts),
        ]
        tell("webhook.disabled", about: target, data)
    }

    func tellRecovered(_ target: Target, since: Timestamp) {
        let data: JSONValue = [
            "webhook": .string(target.id.description), "url": .string(target.webhook.url.withoutQuery),
            "failingSince": .string(since.description),
        ]
        tell("webhook.recovered", about: target, data)
    }

    private func tell(_ type: String, about subject: Target, _ data: JSONValue) {
        let event = OperationalEvent(
            type: type, project: subject.webhook.project, time: .now(), nonce: DeliveryNonce.random(), data: data)
        for target in hearers.values where target.webhook.project == event.project && target !== subject {
            if target.notices.count >= Target.maxNotices { target.notices.remove(at: target.isNoticeInFlight ? 1 : 0) }
            target.notices.append(Target.Notice(event: event))
            consider(target)
        }
    }
}
