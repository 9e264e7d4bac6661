import Dispatch
package import StalecastWire
import Synchronization

/// Where inbound events arrive: finds out who may trigger what, recognises repetitions, and makes sources look. Never
/// touches content. An event is taken by the time of the answer; the looking goes on behind it.
package final class TriggerDesk: Sendable {
    private let targets: [TriggerTarget]
    private let recent: RecentEvents
    private let now: @Sendable () -> Timestamp
    private let tally = Mutex(TriggerFigures())
    /// Where signatures are checked, one post at a time: a stranger's costs a hash of its body for each key.
    private let queue = DispatchQueue(label: "stalecast.triggers")
    /// Posts in ``queue``.
    private let judging = Mutex(0)
    /// So many are judged within some 50 ms.
    private static let maxJudging = 32

    /// - Parameters:
    ///   - targets: scopes with a source of their own; those without credentials answer only Control's token.
    ///   - now: the wall clock, for the times of signatures.
    package init(
        targets: [TriggerTarget], recent: RecentEvents = RecentEvents(),
        now: @escaping @Sendable () -> Timestamp = { .now() }
    ) {
        self.targets = targets
        self.recent = recent
        self.now = now
    }

    package var figures: TriggerFigures { tally.withLock { $0 } }

    /// Whether the body is worth reading: a good token, or a signature that could be good. Says nothing of projects: a
    /// token that is good elsewhere gets its 401 with the body read.
    package func admits(_ post: TriggerPost) -> Bool {
        if post.isOperator || post.offeredToken.map({ !holders(of: $0).isEmpty }) == true { return true }
        let verifiesAny = targets.contains { !$0.keys.isEmpty }
        let isAdmitted = verifiesAny && SignedPost(headers: post.headers, now: now()) != nil
        if !isAdmitted { tally.withLock { $0.unauthenticated += 1 } }
        return isAdmitted
    }

    /// Returns soon for who shows a token. Signatures are checked on a queue of their own, few at a time.
    ///
    /// - Parameter body: as received, inflated. A signature over a compressed body cannot be checked.
    package func take(_ post: TriggerPost, body: [UInt8]) async -> TriggerOutcome {
        let outcome = await outcome(of: post, body)
        tally.withLock { $0.count(outcome) }
        return outcome
    }

    private func outcome(of post: TriggerPost, _ body: [UInt8]) async -> TriggerOutcome {
        if post.isOperator { return answer(post, body, granted: Array(targets.indices)) }
        let holders = post.offeredToken.map { self.holders(of: $0) } ?? []
        guard let signed = SignedPost(headers: post.headers, now: now()) else {
            return answer(post, body, granted: holders)
        }
        guard enter() else { return .busy }
        return await withCheckedContinuation { continuation in
            queue.async {
                let granted = self.granted(signed, body, holders)
                self.judging.withLock { $0 -= 1 }
                continuation.resume(returning: self.answer(post, body, granted: granted))
            }
        }
    }

    private func enter() -> Bool {
        judging.withLock { judging in
            guard judging < Self.maxJudging else { return false }
            judging += 1
            return true
        }
    }

    /// - Parameter granted: the targets that the sender may trigger.
    private func answer(_ post: TriggerPost, _ body: [UInt8], granted: [Int]) -> TriggerOutcome {
        let permitted = granted.map { targets[$0] }.filter { target in
            target.scope.project == post.project
                && (post.namespace == nil || post.namespace == target.scope.namespace.description)
        }
        guard !permitted.isEmpty else { return post.isOperator ? .notFound(whatThereIs(post)) : .unauthenticated }
        do {
            let events = try EventReader.events(headers: post.headers, body: body)
            return .taken(events.map { judge(completed($0, post), permitted) })
        } catch {
            return .malformed(error)
        }
    }

    /// Every key of every target is asked, once, whichever accepts and whatever the project: the time says nothing.
    private func granted(_ signed: SignedPost, _ body: [UInt8], _ holders: [Int]) -> [Int] {
        var answers: [ObjectIdentifier: Bool] = [:]
        for key in targets.flatMap(\.keys) where answers[ObjectIdentifier(key)] == nil {
            answers[ObjectIdentifier(key)] = key.accepts(signed, body)
        }
        return targets.indices.filter { index in
            holders.contains(index) || targets[index].keys.contains { answers[ObjectIdentifier($0)] == true }
        }
    }

    /// Every token of every target is compared, whichever matches.
    private func holders(of token: String) -> [Int] {
        targets.indices.filter { !TriggerToken.matches(token, among: targets[$0].tokens).isEmpty }
    }

    private func whatThereIs(_ post: TriggerPost) -> String {
        let scopes = targets.map(\.scope).filter { $0.project == post.project }
        if scopes.isEmpty { return "No scope of this project has a source that could look; configure one in sources." }
        return "There is no source for this namespace. Scopes with one: "
            + scopes.map(\.description).joined(separator: ", ") + "."
    }

    /// A plain post is known by its headers.
    private func completed(_ event: SourceEvent, _ post: TriggerPost) -> SourceEvent {
        guard event.form == .plain, event.id == nil else { return event }
        var event = event
        event.id = [post.headers["webhook-id"], post.headers["idempotency-key"]].compactMap(\.self)
            .first { (1...256).contains($0.utf8.count) }
        return event
    }

    private func judge(_ event: SourceEvent, _ permitted: [TriggerTarget]) -> TriggerVerdict {
        let concerned = permitted.filter { $0.concerns(event) }
        if concerned.isEmpty { return TriggerVerdict(event: event, result: .ignored, scopes: []) }
        let looking = concerned.filter { !$0.knows(event) }
        if looking.isEmpty { return TriggerVerdict(event: event, result: .known, scopes: []) }
        // Asked last: an event that made nobody look is not remembered.
        let fresh = looking.filter { isNew(event, to: $0.scope) }
        if fresh.isEmpty { return TriggerVerdict(event: event, result: .duplicate, scopes: []) }
        for target in fresh { target.look(event.version) }
        return TriggerVerdict(event: event, result: .looking, scopes: fresh.map(\.scope))
    }

    /// Per scope: two senders with a token each may pass on the same event.
    private func isNew(_ event: SourceEvent, to scope: Scope) -> Bool {
        guard let id = event.id else { return true }
        return recent.take(sender: "\(scope) \(event.form.rawValue) \(event.sender)", id: id)
    }
}

/// How posts and events ended so far.
package struct TriggerFigures: Sendable, Hashable {
    /// Events by result.
    package fileprivate(set) var events: [TriggerVerdict.Result: Int] = [:]
    /// Posts without a good credential.
    package fileprivate(set) var unauthenticated = 0
    /// Posts that were turned away because too many signatures were being checked.
    package fileprivate(set) var busy = 0
    /// Posts with a credential whose body was no event.
    package fileprivate(set) var malformed = 0

    package init() {}

    fileprivate mutating func count(_ outcome: TriggerOutcome) {
        switch outcome {
        case .taken(let verdicts): for verdict in verdicts { events[verdict.result, default: 0] += 1 }
        case .unauthenticated: unauthenticated += 1
        case .malformed: malformed += 1
        case .busy: busy += 1
        case .notFound: break
        }
    }
}
