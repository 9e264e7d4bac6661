import StalecastHub
import StalecastOutbound
import StalecastTestSupport
import StalecastWebhooks
import StalecastWire

/// Steps that a run takes.
extension DeliveryModel {
    mutating func step() {
        switch below(101) {
        case 0..<16: publish(1)
        case 16: publish(330)
        case 17..<45: answer()
        case 45..<57: read(fails: below(12) == 0)
        case 57..<70: wait()
        case 70..<84: editSomething()
        case 84..<86: enable()
        case 86..<88: recover()
        case 88..<90: redrive()
        case 90..<92: reload()
        case 92..<94: restart(isCrash: below(2) == 0)
        case 94: restore()
        case 95..<97: prune()
        case 97: jump()
        case 98: if webhooks.count < 5 { add() } else { outage() }
        case 99: outage()
        default: remove()
        }
        settle()
        check()
    }

    // MARK: The store

    mutating func publish(_ count: Int) {
        guard let scope = pick(Self.scopes) else { return }
        let keys = count > 1 || below(3) > 0 ? ["other"] : ["beta"]
        note("publish \(count) to \(scope) \(keys)")
        for _ in 0..<count {
            sequence += 1
            let number = (store[scope]?.last?.version ?? 0) + 1
            let change = TemplateChange(
                scope: scope, sequence: sequence, metadata: VersionMetadata(number: number, updateTime: now.wall),
                etag: "", changedKeys: keys)
            store[scope, default: []].append(change)
            state.announced(change, at: now.monotonic)
        }
    }

    mutating func prune() {
        guard let scope = pick(Self.scopes), let count = store[scope]?.count, count > 1 else { return }
        let kept = 1 + below(min(count, 6))
        note("prune \(scope) to \(kept)")
        store[scope]?.removeFirst(max(0, count - kept))
    }

    mutating func read(fails: Bool) {
        guard !reads.isEmpty else { return }
        let (id, scope, after) = reads.remove(at: below(reads.count))
        note("read \(scope) after \(after)\(fails ? " fails" : "")")
        let changes = (store[scope] ?? []).filter { $0.sequence > after }.prefix(256)
        state.read(id, oldest: fails ? nil : store[scope]?.first, fails ? [] : Array(changes), at: now)
    }

    // MARK: Receivers

    mutating func answer(isGood: Bool = false) {
        guard !attempts.isEmpty else { return }
        let attempt = attempts.remove(at: below(attempts.count))
        var conclusion = AttemptConclusion.delivered
        var status: Int? = 204
        if !isGood {
            (conclusion, status) =
                pick([
                    (.delivered, 204), (.delivered, 200), (.delivered, 204), (.failed(.backoff), 500),
                    (.failed(.backoff), nil),
                    (.failed(.backoff), 404), (.failed(.patience(.seconds(30 + below(600)))), 429), (.hopeless, 413),
                    (.failed(.atLeast(.seconds(30))), 502),
                ]) ?? (.delivered, 204)
            if below(25) == 0 { (conclusion, status) = below(2) == 0 ? (.gone, 410) : (.refused, 204) }
            if cancelled.contains(attempt.id), below(2) == 0 { (conclusion, status) = (.cancelled, nil) }
            if !state.mayStart(attempt.id), below(4) == 0 { (conclusion, status) = (.cancelled, nil) }
        }
        note("answer \(describe(attempt)) \(conclusion)")
        take(attempt, conclusion, status)
    }

    mutating func take(_ attempt: DeliveryState.Attempt, _ conclusion: AttemptConclusion, _ status: Int?) {
        cancelled.remove(attempt.id)
        let id = attempt.webhook.id
        let isOwn = webhooks.contains { $0.id == id && receiver($0) == receiver(attempt.webhook) }
        let before = state.status(of: id, at: now)?.state.name
        _ = state.finished(attempt.id, conclusion, AttemptResult(status: status, name: "any"), at: now)
        guard let change = attempt.heard?.change else { return }
        let key = Key(webhook: id, scope: change.scope)
        if !isOwn, before != "disabled", state.status(of: id, at: now)?.state.name == "disabled" {
            problem("a former receiver disabled \(short(id))")
        }
        guard isOwn else { return }
        switch conclusion {
        case .delivered:
            tracks[key]?.acknowledged.insert(change.sequence)
            if webhooks.contains(where: { $0.id == id && $0.mode == .latest }) {
                let base = max(tracks[key]?.base ?? 0, change.sequence)
                tracks[key]?.base = base
            }
            failing[id] = nil
        case .failed(let wait):
            if case .patience(let asked) = wait {
                patience[id] = max(patience[id] ?? 0, now.monotonic + UInt64(asked.components.seconds) * 1_000_000_000)
            } else if failing[id] == nil {
                failing[id] = running
            }
        case .hopeless, .gone: if failing[id] == nil { failing[id] = running }
        case .refused, .cancelled: break
        }
        if case .disabled("failing", _)? = state.status(of: id, at: now)?.state, before != "disabled",
            running - (failing[id] ?? running) < 5 * 86_400 * 1_000_000_000
        {
            problem(
                "\(short(id)) is disabled after \((running - (failing[id] ?? running)) / 3_600_000_000_000) h of failing"
            )
        }
    }

    /// Lets no receiver answer well for hours.
    mutating func outage() {
        note("an outage")
        for _ in 0..<60 {
            if let next = state.nextTick, next > now.monotonic { pass(min(next - now.monotonic, 3_600_000_000_000)) }
            settle()
            while let attempt = attempts.popLast() { take(attempt, .failed(.backoff), 500) }
            settle()
        }
    }

    // MARK: Time

    mutating func wait() {
        let choices: [UInt64] = [1, 100, 1000, 5000, 40_000, 600_000, 4 * 3_600_000, 30 * 3_600_000]
        pass((pick(choices) ?? 1) * 1_000_000)
    }

    mutating func pass(_ time: UInt64) {
        note("\(time / 1_000_000) ms pass")
        now.monotonic += time
        running += time
        now.wall = Timestamp(microseconds: now.wall.microseconds + Int64(time / 1000))
        state.tick(at: now)
    }

    /// The wall's clock is set.
    mutating func jump() {
        let hours = Int64(below(400) - 200)
        note("the clock is set by \(hours) h")
        now.wall = Timestamp(microseconds: now.wall.microseconds + hours * 3_600_000_000)
    }

    // MARK: The operator

    mutating func editSomething() {
        guard !webhooks.isEmpty else { return }
        let index = below(webhooks.count)
        let choice = below(9)
        let (mode, topics, url) = (pick(Self.modes) ?? .latest, topics(), url())
        let rate = below(2) == 0 ? nil : 0.5
        note("edit \(short(webhooks[index].id)) \(choice) \(mode.name) \(topics)")
        edit(index) { webhook in
            switch choice {
            case 0, 1: webhook.mode = mode
            case 2, 3: webhook.topics = topics
            case 4: webhook.url = url
            case 5: webhook.headers = [OutboundHeader(trusted: "x", url.text)]
            case 6: webhook.limits.maxPerSecond = rate
            case 7: webhook.description += "."
            default: webhook.isPaused.toggle()
            }
        }
    }

    mutating func enable() {
        guard let webhook = pick(webhooks) else { return }
        note("enable \(short(webhook.id))")
        _ = state.enabled(webhook.id, at: now.monotonic)
        patience[webhook.id] = nil
        failing[webhook.id] = nil
    }

    mutating func recover() {
        guard let webhook = pick(webhooks), let scope = pick(Self.scopes), let stored = store[scope], !stored.isEmpty
        else { return }
        let first = below(stored.count)
        let wanted = webhook.mode == .latest ? stored.suffix(1) : stored[max(first, stored.count - 12)...]
        note("recover \(short(webhook.id)) \(scope) from \(wanted.first?.sequence ?? 0)")
        forgive(webhook.id, scope)
        state.owe(webhook.id, scope, wanted.map(\.sequence), isStored: false, at: now.monotonic)
    }

    mutating func redrive() {
        guard let webhook = pick(webhooks), let scope = pick(Self.scopes) else { return }
        flush()
        let key = Key(webhook: webhook.id, scope: scope)
        let own = letters.filter { $0.key.key == key && $0.key.epoch == epoch && $0.value > 0 }
        guard !own.isEmpty, image.lanes[webhook.id]?[scope] != nil else { return }
        note("redrive \(own.count) of \(short(webhook.id)) \(scope)")
        for (letter, sequence) in own {
            letters[letter] = nil
            image.lanes[webhook.id]?[scope]?.extras.insert(sequence)
            tracks[key]?.extras.insert(sequence)
        }
        state.owe(webhook.id, scope, Set(own.values).sorted(), isStored: true, at: now.monotonic)
    }

    /// Allows the letters of a lane to be given up once more.
    mutating func forgive(_ id: WebhookID, _ scope: Scope) {
        flush()
        repeatable.formUnion(letters.keys.filter { $0.key == Key(webhook: id, scope: scope) })
    }

    mutating func remove() {
        guard webhooks.count > 1 else { return }
        let webhook = webhooks.remove(at: below(webhooks.count))
        note("remove \(short(webhook.id))")
        state.removed(webhook.id)
        forget(webhook.id)
    }

    mutating func forget(_ id: WebhookID) {
        tracks = tracks.filter { $0.key.webhook != id }
        patience[id] = nil
        failing[id] = nil
    }

    mutating func reload() {
        routes = Self.routes(withBeta: below(3) > 0)
        note("reload with \(routes.count) topics")
        state.rebound(routes, at: now.monotonic)
        for webhook in webhooks {
            renew(webhook, from: webhook.mode, isHearing: true)
            begin(webhook)
        }
    }

    // MARK: Restarts

    mutating func restart(isCrash: Bool) {
        // Of what was not written yet a part may be lost, with all that came later.
        if isCrash { pending.removeLast(below(pending.count + 1)) }
        note("restart\(isCrash ? " after a crash" : "")")
        flush()
        now.monotonic += UInt64(below(3)) * 1_000_000_000
        now.wall = Timestamp(microseconds: now.wall.microseconds + Int64(below(3)) * 9 * 86_400_000_000)
        attempts = []
        cancelled = []
        reads = []
        patience = [:]
        // What of them was lost is given up again.
        pendingLetters = []
        for key in tracks.keys {
            if image.lanes[key.webhook]?[key.scope] == nil { lose(key) }
            tracks[key]?.last = 0
            tracks[key]?.extras = image.lanes[key.webhook]?[key.scope]?.extras ?? []
        }
        for index in webhooks.indices where below(6) == 0 {
            let url = url()
            webhooks[index].url = url
            failing[webhooks[index].id] = nil
            for scope in Self.scopes { tracks[Key(webhook: webhooks[index].id, scope: scope)]?.last = 0 }
        }
        state = DeliveryState(Self.configuration, routes: routes, random: SeededRandom(seed: random.next()))
        let remembered = image.needsAll(webhooks, bound: Set(routes.map(\.name))) ? Int.max : 1 + below(20)
        let changes = Self.scopes.flatMap { (store[$0] ?? []).suffix(remembered) }
        state.begin(webhooks, changes, image, opened: now.wall, at: now)
        for webhook in webhooks { begin(webhook) }
    }

    /// The lane was not written before the crash: it is owed the newest version once, or begins now when the clock says
    /// that the webhook is new.
    private mutating func lose(_ key: Key) {
        guard let webhook = webhooks.first(where: { $0.id == key.webhook }) else { return }
        let stored = store[key.scope] ?? []
        let head = stored.last?.sequence ?? 0
        if webhook.createdAt < now.wall, covers(webhook, key.scope) {
            tracks[key] = Track(base: stored.last { hears(webhook, $0) }?.sequence ?? head)
        } else {
            tracks[key] = covers(webhook, key.scope) ? Track(base: head, begun: head) : nil
        }
    }

    /// A backup takes the store's place, with fewer versions and numbers of its own.
    mutating func restore() {
        note("restore")
        flush()
        epoch += 1
        for scope in Self.scopes {
            guard let count = store[scope]?.count, count > 1 else { continue }
            let lost = below(min(count, 4))
            store[scope]?.removeLast(lost)
        }
        sequence = store.values.compactMap { $0.last?.sequence }.max() ?? 0
        for id in image.lanes.keys {
            for scope in image.lanes[id]!.keys {
                image.lanes[id]![scope] = DeliveryImage.StoredLane()
                image.lanes[id]![scope]!.isRenewed = true
            }
        }
        for key in tracks.keys {
            let stored = store[key.scope] ?? []
            let newest = webhooks.first { $0.id == key.webhook }.flatMap { webhook in
                stored.last { hears(webhook, $0) }
            }
            tracks[key] = Track(base: (newest ?? stored.last).map { $0.sequence } ?? 0)
        }
        restart(isCrash: false)
    }
}
