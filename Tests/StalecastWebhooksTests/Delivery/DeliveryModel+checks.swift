import StalecastWebhooks
import StalecastWire

/// Checks of what must be so.
extension DeliveryModel {
    func short(_ id: WebhookID) -> String { String(id.description.suffix(4)) }

    func describe(_ attempt: DeliveryState.Attempt) -> String {
        let what = attempt.heard.map { "\($0.change.scope) \($0.change.sequence)" } ?? "an operational message"
        return "\(attempt.id) of \(short(attempt.webhook.id)) \(what)"
    }

    /// Does what the state asks for.
    mutating func settle() {
        var turns = 0
        repeat {
            if state.nextTick == 0 { state.tick(at: now) }
            pending.append([])
            for action in state.takeActions() {
                switch action {
                case .start(let attempt): start(attempt)
                case .cancel(let id): cancelled.insert(id)
                case .read(let id, let scope, let after): reads.append((id, scope, after))
                case .journal(let entry): write(entry)
                case .log, .disabled: break
                }
            }
            turns += 1
        } while state.nextTick == 0 && turns < 1000
        if turns == 1000 { problem("it never comes to rest") }
    }

    private mutating func start(_ attempt: DeliveryState.Attempt) {
        note("start \(describe(attempt))")
        defer { attempts.append(attempt) }
        let id = attempt.webhook.id
        guard let webhook = webhooks.first(where: { $0.id == id }) else {
            return problem("\(short(id)) is sent something although it was removed")
        }
        if webhook.isPaused { problem("\(short(id)) is sent something although it is paused") }
        if receiver(webhook) != receiver(attempt.webhook) { problem("\(short(id)) is sent something at a former URL") }
        if now.monotonic < patience[id] ?? 0 { problem("\(short(id)) is not given the time it asked for") }
        guard let change = attempt.heard?.change else { return }
        let key = Key(webhook: id, scope: change.scope)
        let others = attempts.count { $0.webhook.id == id && $0.heard?.change.scope == change.scope }
        if webhook.mode != .all, others > 0 {
            problem("\(short(id)) has \(others + 1) attempts in flight for one scope")
        }
        if webhook.mode != .all { checkOrder(webhook, key, change) }
        let highest = max(tracks[key]?.highest ?? 0, change.sequence)
        tracks[key]?.highest = highest
    }

    private mutating func checkOrder(_ webhook: Webhook, _ key: Key, _ change: TemplateChange) {
        guard let track = tracks[key] else { return problem("\(short(key.webhook)) has no lane for \(key.scope)") }
        let sequence = change.sequence
        if !track.extras.contains(sequence) || webhook.mode == .latest {
            if sequence < track.last { problem("\(short(key.webhook)) is sent \(sequence) after \(track.last)") }
            tracks[key]?.last = sequence
        }
        guard webhook.mode != .latest else { return }
        if let first = track.extras.min(), first < sequence {
            problem("\(short(key.webhook)) is sent \(sequence) before \(first), which was asked for")
        }
        guard !track.extras.contains(sequence) else { return }
        for missing in holes(webhook, key, before: sequence) {
            problem("\(short(key.webhook)) is sent \(sequence) without \(missing)")
        }
    }

    /// Versions that are stored, concern the webhook, and were neither taken nor given up.
    private func holes(_ webhook: Webhook, _ key: Key, before end: CommitSequence) -> [CommitSequence] {
        guard let track = tracks[key] else { return [] }
        return (store[key.scope] ?? []).filter { change in
            change.sequence > track.base && change.sequence < end && hears(webhook, change)
                && !track.acknowledged.contains(change.sequence) && !isDead(key, change.version)
        }.map(\.sequence)
    }

    private func isDead(_ key: Key, _ version: VersionNumber) -> Bool {
        (Array(letters.keys) + pendingLetters).contains { $0.key == key && $0.version == version && $0.epoch == epoch }
    }

    // MARK: The database

    private mutating func write(_ entry: JournalEntry) {
        pending[pending.count - 1].append(entry)
        switch entry {
        case .dead(let id, let letter):
            let webhook = webhooks.first { $0.id == id }
            let own = Letter(
                key: Key(webhook: id, scope: letter.scope), version: letter.version,
                receiver: webhook.map(receiver) ?? "", epoch: epoch)
            note("dead letter \(letter.version) \(letter.reason) of \(short(id)) \(letter.scope)")
            let isOld = letters[own] != nil || pendingLetters.contains(own)
            if isOld, repeatable.remove(own) == nil {
                problem("version \(letter.version) is given up twice for \(short(id))")
            }
            pendingLetters.append(own)
        case .extras(let id, let scope, let sequences, let areOwed):
            let key = Key(webhook: id, scope: scope)
            for sequence in sequences {
                if areOwed { tracks[key]?.extras.insert(sequence) } else { tracks[key]?.extras.remove(sequence) }
            }
        default: break
        }
    }

    mutating func flush() {
        for entry in pending.joined() {
            if case .dead(let id, let letter) = entry,
                let own = pendingLetters.first(where: {
                    $0.key == Key(webhook: id, scope: letter.scope) && $0.version == letter.version
                })
            {
                letters[own] = letter.reason == DeadLetter.pruned ? 0 : letter.sequence
                pendingLetters.removeAll { $0 == own }
            }
            image.apply(entry)
        }
        pending = []
    }

    // MARK: After a step

    mutating func check() {
        for sentence in state.checkConsistency(at: now.monotonic) { problem(sentence) }
        if state.tally(at: now.wall).stuck > 0 { problem("a webhook was stuck") }
        if below(3) == 0 { flush() }
    }

    /// Ends the run: all receivers answer, and each has what is newest.
    mutating func end() {
        note("the end")
        isEnding = true
        for index in webhooks.indices {
            if webhooks[index].isPaused || webhooks[index].limits.maxPerSecond != nil {
                edit(index) {
                    $0.isPaused = false
                    $0.limits.maxPerSecond = nil
                }
            }
            _ = state.enabled(webhooks[index].id, at: now.monotonic)
            patience[webhooks[index].id] = nil
        }
        settle()
        var turns = 0
        while turns < 20_000, problems.isEmpty {
            turns += 1
            if !attempts.isEmpty {
                answer(isGood: true)
            } else if !reads.isEmpty {
                read(fails: false)
            } else if let next = state.nextTick {
                pass(next > now.monotonic ? next - now.monotonic : 0)
            } else {
                break
            }
            settle()
        }
        if turns == 20_000 { problem("it does not end: \(attempts.count) \(reads.count) \(state.nextTick ?? 1)") }
        check()
        for webhook in webhooks {
            for scope in Self.scopes where covers(webhook, scope) { checkEnd(webhook, scope) }
        }
    }

    private mutating func checkEnd(_ webhook: Webhook, _ scope: Scope) {
        let key = Key(webhook: webhook.id, scope: scope)
        guard let track = tracks[key], let newest = store[scope]?.last(where: { hears(webhook, $0) }) else { return }
        let has = track.acknowledged.max() ?? 0
        if newest.sequence > track.begun, has < newest.sequence, !isDead(key, newest.version) {
            problem("\(short(webhook.id)) never got \(newest.sequence) of \(scope), \(has) at most")
        }
        if webhook.mode != .latest {
            for missing in holes(webhook, key, before: .max) {
                problem("\(short(webhook.id)) never got \(missing) of \(scope)")
            }
        }
        let lag = state.status(of: webhook.id, at: now)?.scopes.first { $0.scope == scope }?.lag
        if lag != 0 { problem("\(short(webhook.id)) has a lag of \(lag ?? -1) in the end") }
    }
}

extension DeliveryImage {
    /// Applies an entry as the database does.
    mutating func apply(_ entry: JournalEntry) {
        switch entry {
        case .lane(let id, let scope, let record):
            lanes[id, default: [:]][scope, default: DeliveryImage.StoredLane()].record = record
            lanes[id]?[scope]?.isRenewed = false
            ids.insert(id)
        case .beyond(let id, let scope, let place): lanes[id]?[scope]?.beyond[place.sequence] = place.version
        case .health(let id, let known):
            health[id] = known
            ids.insert(id)
        case .extras(let id, let scope, let sequences, let areOwed):
            for sequence in sequences {
                if areOwed {
                    lanes[id]?[scope]?.extras.insert(sequence)
                } else {
                    lanes[id]?[scope]?.extras.remove(sequence)
                }
            }
        case .removed(let id):
            lanes[id] = nil
            health[id] = nil
            ids.remove(id)
        case .dead(let id, _): ids.insert(id)
        }
    }
}
