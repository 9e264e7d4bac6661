import Dispatch
package import StalecastWire
import Synchronization

/// Receiver of inbound events: finds out which sender may trigger what, recognises repetitions, and makes sources look.
/// Never touches content. An event is taken by the time of the answer; the looking goes on behind it.
package final class TriggerService: Sendable {
    private let targets: [Target]
    private let recent: RecentEvents
    private let now: @Sendable () -> Timestamp
    private let tally = Mutex(Figures())
    /// Queue on which signatures are checked, one post at a time: a stranger's costs a hash of its body for each key.
    private let queue = DispatchQueue(label: "stalecast.triggers")
    /// Posts in ``queue``.
    private let judging = Mutex(0)
    /// Most posts that are judged at once, which takes some 50 ms.
    private static let maxJudging = 32

    /// - Parameters:
    ///   - targets: scopes with a source of their own; those without credentials answer only Control's token.
    ///   - now: the wall clock, for the times of signatures.
    package init(
        targets: [Target], recent: RecentEvents = RecentEvents(),
        now: @escaping @Sendable () -> Timestamp = { .now() }
    ) {
        (self.targets, self.recent, self.now) = (targets, recent, now)
    }

    package var figures: Figures { tally.withLock { $0 } }

    /// Whether the body is worth reading: the token is good, or a signature may be. Projects are not checked yet: a token
    /// of another project gets its 401 after the body was read.
    package func admits(_ post: Post) -> Bool {
        if post.isOperator || post.offeredToken.map({ !holders(of: $0).isEmpty }) == true { return true }
        let verifiesAny = targets.contains { !$0.keys.isEmpty }
        let isAdmitted = verifiesAny && SignedPost(headers: post.headers, now: now()) != nil
        if !isAdmitted { tally.withLock { $0.unauthenticated += 1 } }
        return isAdmitted
    }

    /// Returns quickly for a sender with a token. Signatures are checked on a queue of their own, few at a time.
    ///
    /// - Parameter body: as received, inflated. A signature over a compressed body cannot be checked.
    package func take(_ post: Post, body: [UInt8]) async -> Outcome {
        let outcome = await outcome(of: post, body)
        tally.withLock { $0.count(outcome) }
        return outcome
    }

    private func outcome(of post: Post, _ body: [UInt8]) async -> Outcome {
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
    private func answer(_ post: Post, _ body: [UInt8], granted: [Int]) -> Outcome {
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

    /// Tries every key of every target once, so that the time does not show which key or project matches.
    private func granted(_ signed: SignedPost, _ body: [UInt8], _ holders: [Int]) -> [Int] {
        var answers: [ObjectIdentifier: Bool] = [:]
        for key in targets.flatMap(\.keys) where answers[ObjectIdentifier(key)] == nil {
            answers[ObjectIdentifier(key)] = key.accepts(signed, body)
        }
        return targets.indices.filter { index in
            holders.contains(index) || targets[index].keys.contains { answers[ObjectIdentifier($0)] == true }
        }
    }

    /// Compares every token of every target, so that the time does not tell which one matched.
    private func holders(of token: String) -> [Int] {
        targets.indices.filter { !TriggerToken.matches(token, among: targets[$0].tokens).isEmpty }
    }

    private func whatThereIs(_ post: Post) -> String {
        let scopes = targets.map(\.scope).filter { $0.project == post.project }
        if scopes.isEmpty { return "No scope of this project has a source that could look; configure one in sources." }
        return "There is no source for this namespace. Scopes with one: "
            + scopes.map(\.description).joined(separator: ", ") + "."
    }

    /// A plain post is known by its headers.
    private func completed(_ event: SourceEvent, _ post: Post) -> SourceEvent {
        guard event.form == .plain, event.id == nil else { return event }
        var event = event
        event.id = [post.headers["webhook-id"], post.headers["idempotency-key"]].compactMap(\.self)
            .first { (1...256).contains($0.utf8.count) }
        return event
    }

    private func judge(_ event: SourceEvent, _ permitted: [Target]) -> Receipt {
        let concerned = permitted.filter { $0.concerns(event) }
        if concerned.isEmpty { return Receipt(event: event, result: .ignored, scopes: []) }
        let polling = concerned.filter { !$0.knows(event) }
        if polling.isEmpty { return Receipt(event: event, result: .known, scopes: []) }
        // Asked last: an event that caused no look is not remembered.
        let fresh = polling.filter { isNew(event, to: $0.scope) }
        if fresh.isEmpty { return Receipt(event: event, result: .duplicate, scopes: []) }
        for target in fresh { target.poll(event.version) }
        return Receipt(event: event, result: .polling, scopes: fresh.map(\.scope))
    }

    /// Per scope: two senders with a token each may pass on the same event.
    private func isNew(_ event: SourceEvent, to scope: Scope) -> Bool {
        guard let id = event.id else { return true }
        return recent.take(sender: "\(scope) \(event.form.rawValue) \(event.sender)", id: id)
    }

    /// Counts of posts and events by their end.
    package struct Figures: Sendable, Hashable {
        package fileprivate(set) var events: [Receipt.Result: Int] = [:]
        /// Posts without a good credential.
        package fileprivate(set) var unauthenticated = 0
        /// Posts that were turned away because too many signatures were being checked.
        package fileprivate(set) var busy = 0
        /// Posts with a credential whose body was no event.
        package fileprivate(set) var malformed = 0

        fileprivate mutating func count(_ outcome: Outcome) {
            switch outcome {
            case .taken(let receipts): for receipt in receipts { events[receipt.result, default: 0] += 1 }
            case .unauthenticated: unauthenticated += 1
            case .malformed: malformed += 1
            case .busy: busy += 1
            case .notFound: break
            }
        }
    }

    /// A request to a project's `triggers`.
    package struct Post: Sendable {
        /// nil when the path names no project that is served.
        package var project: ProjectID?
        /// Header fields by lower-case name.
        package var headers: [String: String]
        /// The query's `token`.
        package var token: String?
        /// The query's `namespace`; nil means all of the project.
        package var namespace: String?
        /// Whether the sender showed Control's own token, which may do everything.
        package var isOperator: Bool

        package init(
            project: ProjectID?, headers: [String: String], token: String? = nil, namespace: String? = nil,
            isOperator: Bool
        ) {
            (self.project, self.headers, self.token) = (project, headers, token)
            (self.namespace, self.isOperator) = (namespace, isOperator)
        }

        /// Text that may be a trigger token: the query's, else that of `Authorization`.
        var offeredToken: String? {
            if let token { return token }
            let words = (headers["authorization"] ?? "").split(separator: " ")
            guard words.count == 2, words[0].lowercased() == "bearer" else { return nil }
            return String(words[1])
        }
    }

    /// End of a ``TriggerService/Post``.
    package enum Outcome: Sendable, Hashable {
        /// One receipt per event, in order.
        case taken([Receipt])
        /// Too many strangers' posts are being judged already; nothing was looked at.
        case busy
        /// No credential that is good here: said in the same words whatever is wrong, existing or not.
        case unauthenticated
        /// The sender showed Control's token, and there is nothing to trigger; the sentence says what there is.
        case notFound(String)
        case malformed(SourceEvent.Problem)
    }

    /// Result of one event.
    package struct Receipt: Sendable, Hashable {
        /// Raw values are the words on the wire and in metrics.
        package enum Result: String, Sendable, Hashable, CaseIterable {
            /// Sources look now.
            case polling = "looking"
            /// The event was taken before.
            case duplicate
            /// The version was adopted before.
            case known
            /// The event is about another project or namespace.
            case ignored
        }

        package let event: SourceEvent
        package let result: Result
        /// The scopes that look; empty unless ``Result/polling``.
        package let scopes: [Scope]

        /// `{"form","id","result","scopes"}`, the id only when there is one.
        package var json: JSONValue {
            [
                "form": .string(event.form.rawValue), "id": event.id.map(JSONValue.string),
                "result": .string(result.rawValue), "scopes": .array(scopes.map { .string($0.description) }),
            ]
        }
    }

    /// A scope whose source can be told to look.
    package struct Target: Sendable {
        package let scope: Scope
        /// Names that an event may use for the project: its ids and numbers, here and at the origin.
        package var projectNames: Set<String>
        /// Tokens that may trigger this scope and nothing else.
        package var tokens: [TriggerToken]
        /// Keys for posts that are signed by Standard Webhooks.
        package var keys: [SignedPost.Key]
        /// The newest version of the origin that was adopted; nil when none was, or the origin has no numbers. Called
        /// on any thread, must not block.
        package var knownVersion: @Sendable () -> VersionNumber?
        /// Makes the source look now; `expecting` is the version it should see, nil when the event named none. Returns
        /// at once.
        package var poll: @Sendable (_ expecting: VersionNumber?) -> Void

        package init(
            scope: Scope, projectNames: Set<String>, tokens: [TriggerToken] = [], keys: [SignedPost.Key] = [],
            knownVersion: @escaping @Sendable () -> VersionNumber?,
            poll: @escaping @Sendable (_ expecting: VersionNumber?) -> Void
        ) {
            (self.scope, self.projectNames, self.tokens) = (scope, projectNames, tokens)
            (self.keys, self.knownVersion, self.poll) = (keys, knownVersion, poll)
        }

        /// Whether the event can be about this scope.
        func concerns(_ event: SourceEvent) -> Bool {
            if let namespace = event.namespace, namespace != scope.namespace.description { return false }
            guard let project = event.project else { return true }
            return projectNames.contains(project)
        }

        /// Whether the version the event tells of was adopted already.
        func knows(_ event: SourceEvent) -> Bool {
            guard let version = event.version, let known = knownVersion() else { return false }
            return version <= known
        }
    }
}
