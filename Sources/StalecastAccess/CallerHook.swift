import DequeModule
import StalecastWire
import Synchronization

/// The user's backend, which says whose a request at Edge is by headers of the user's own, such as a session's cookie.
/// It is asked off the loops, each question once at a time; what it does not say in time is not so.
package final class CallerHook: Sendable {
    /// The allow-listed headers of one request; at least one.
    package struct Question: Sendable, Hashable {
        package struct Header: Sendable, Hashable {
            package let name: String
            package let value: String

            package init(_ name: String, _ value: String) {
                self.name = name
                self.value = value
            }
        }

        package let headers: [Header]
        /// Digest of all of it: answers are kept under it.
        package let digest: SecretDigest

        /// nil when there is nothing to ask with.
        package init?(_ headers: [Header]) {
            if headers.isEmpty { return nil }
            self.headers = headers
            // Neither a name nor a value has a line feed.
            digest = SecretDigest(of: headers.map { "\($0.name)\n\($0.value)\n" }.joined())
        }

        /// Bytes that the wait for its answer costs.
        fileprivate var weight: Int { headers.reduce(512) { $0 + $1.name.utf8.count + $1.value.utf8.count } }
    }

    package struct Reply: Sendable {
        package let status: Int
        package let body: [UInt8]

        package init(status: Int, body: [UInt8]) {
            self.status = status
            self.body = body
        }
    }

    /// Asks the backend, for a second at most; `done` is called once, with nil when no answer came.
    package typealias Ask = @Sendable (Question, _ done: @escaping @Sendable (Reply?) -> Void) -> Void
    package typealias Done = @Sendable (Denial?) -> Void

    package static let maxInFlight = 64
    /// Bytes of the requests that wait; beyond them it is "not now".
    static let maxWaiting = 32 << 20
    /// Time after which a question that was not sent is dropped: the backend cannot keep up, or does not answer.
    static let patience = Duration.seconds(5)

    private struct State: Sendable {
        var names: [String] = []
        var ask: Ask?
        var callers: KnownCallers
        /// Callers that wait for a question's answer.
        var waiting: [SecretDigest: (dones: [Done], weight: Int)] = [:]
        var weight = 0
        /// Questions that were not sent yet, in their order.
        var queue: Deque<(question: Question, since: Timestamp)> = []
        var inFlight = 0
        var isAsking = false

        /// Takes out who waits for an answer.
        mutating func take(_ digest: SecretDigest) -> [Done] {
            guard let waiting = waiting.removeValue(forKey: digest) else { return [] }
            weight -= waiting.weight
            return waiting.dones
        }

        mutating func next(at now: Timestamp) -> Next? {
            if let first = queue.first, first.since.advanced(by: CallerHook.patience) < now {
                return .tooLate(take(queue.removeFirst().question.digest))
            }
            guard inFlight < CallerHook.maxInFlight, let ask, let first = queue.popFirst() else { return nil }
            inFlight += 1
            return .asks(first.question, ask)
        }
    }

    private enum Next {
        case asks(Question, Ask)
        case tooLate([Done])
    }

    private let state: Mutex<State>
    private let clock: @Sendable () -> Timestamp
    private let isConfigured = Atomic<Bool>(false)

    init(remembering capacity: Int, clock: @escaping @Sendable () -> Timestamp) {
        state = Mutex(State(callers: KnownCallers(capacity: capacity)))
        self.clock = clock
    }

    /// - Parameter names: of the headers that are passed on, in lower case.
    package func configure(names: [String], _ ask: @escaping Ask) {
        state.withLock { ($0.names, $0.ask) = (names, ask) }
        isConfigured.store(true, ordering: .relaxed)
    }

    package var isOn: Bool { isConfigured.load(ordering: .relaxed) }
    package var names: [String] { state.withLock { $0.names } }

    /// Has a question answered, unless the answer is known.
    ///
    /// - Parameters:
    ///   - weight: bytes of the request that waits.
    ///   - done: at once, or on the thread that heard the answer; nil is good.
    package func ask(_ question: Question, weight: Int = 0, _ done: @escaping Done) {
        let now = clock()
        let end = state.withLock { state -> Denial?? in
            // The answer to another caller may have come since this one looked.
            if state.callers.principal(of: question.digest, at: now) != nil { return .some(nil) }
            let weight = question.weight + weight
            guard state.ask != nil, state.weight + weight <= Self.maxWaiting else { return .some(.notReady) }
            let isNew = state.waiting[question.digest] == nil
            state.waiting[question.digest, default: ([], 0)].dones.append(done)
            state.waiting[question.digest]?.weight += weight
            state.weight += weight
            if isNew { state.queue.append((question, now)) }
            return nil
        }
        if let end { done(end) } else { askNext() }
    }

    /// Asks as many questions as the limit allows. One call asks for all callers, because an answer may come during it.
    private func askNext() {
        let isFirst = state.withLock { state in
            defer { state.isAsking = true }
            return !state.isAsking
        }
        guard isFirst else { return }
        while true {
            let now = clock()
            let next = state.withLock { state in
                let next = state.next(at: now)
                if next == nil { state.isAsking = false }
                return next
            }
            switch next {
            case .asks(let question, let ask): ask(question) { [self] in finish(question.digest, $0) }
            case .tooLate(let dones): for done in dones { done(.notReady) }
            case nil: return
            }
        }
    }

    private func finish(_ digest: SecretDigest, _ reply: Reply?) {
        let now = clock()
        var denial: Denial?
        var answer: HookAnswer?
        do throws(Denial) { answer = try HookAnswer(reply, at: now) } catch { denial = error }
        let waiting = state.withLock { state in
            // Kept before the waiting ones are taken, under one lock: a caller in between would ask once more.
            if let answer { state.callers.insert(digest, answer) }
            state.inFlight -= 1
            return state.take(digest)
        }
        for done in waiting { done(denial) }
        askNext()
    }

    /// Principal of an answered question. With a `verification` the answer is new, so its age is not checked.
    func authenticate(
        _ digest: SecretDigest, _ verification: Credentials.Verification?
    ) throws(Denial) -> Authorizer.Authentication {
        if case .refused(let denial)? = verification { throw denial }
        guard verification == .good else { return .unverified }
        let now = clock()
        guard let principal = state.withLock({ $0.callers.latest(of: digest, at: now) }) else { throw .notReady }
        return .known(principal)
    }

    func currentPrincipal(of number: Int32) -> Principal? {
        let now = clock()
        return state.withLock { $0.callers.known[number]?.principal.current(at: now) }
    }

    func hold(_ number: Int32) { state.withLock { $0.callers.known.hold(number) } }
    func release(_ number: Int32) { state.withLock { $0.callers.known.release(number) } }
}

/// Answer of the backend to a question: `{"subject","grants","expiresAt","cacheFor"}`.
struct HookAnswer: Sendable {
    let subject: String
    let grants: [Grant]
    let expiresAt: Timestamp
    let cachedUntil: Timestamp

    private static let maxCache: Int64 = 300
    /// Streams of who does not say when it ends are asked for again.
    private static let defaultLife: Duration = .seconds(3600)
    private static let maxLife: Duration = .seconds(86_400)

    /// - Throws: ``Denial/unknown`` for 401 and 403; ``Denial/notReady`` for everything that says neither yes nor no.
    init(_ reply: CallerHook.Reply?, at now: Timestamp) throws(Denial) {
        guard let reply else { throw .notReady }
        if reply.status == 401 || reply.status == 403 { throw .unknown }
        guard reply.status == 200, let json = JSONValue.ifValid(reply.body),
            let subject = json["subject"]?.string, (1...256).contains(subject.utf8.count),
            let grants = try? Grant.list(json["grants"])  // unreadable grants: no answer, so no access
        else { throw .notReady }
        self.subject = subject
        self.grants = grants
        var end = now.advanced(by: Self.defaultLife)
        if let said = json["expiresAt"], !said.isNull {
            guard let time = said.string.flatMap({ Timestamp($0) }) else { throw .notReady }
            if time <= now { throw .expired }
            end = min(time, now.advanced(by: Self.maxLife))
        }
        expiresAt = end
        let cache = json["cacheFor"]?.int64 ?? 0
        cachedUntil = now.advanced(by: .seconds(min(max(0, cache), Self.maxCache)))
    }
}

/// Principals that the backend has named, by question and by number.
struct KnownCallers: Sendable {
    var known: PrincipalCache<(principal: Principal, cachedUntil: Timestamp)>

    init(capacity: Int) { known = PrincipalCache(PrincipalTable.hook(capacity: capacity)) }

    mutating func insert(_ digest: SecretDigest, _ answer: HookAnswer) {
        // A principal that the backend names again keeps its number, so that everything counted by it stays together.
        let same = known[digest].flatMap { number, former in
            former.principal.id == answer.subject && former.principal.grants == answer.grants ? number : nil
        }
        let number = same ?? known.newNumber()
        let principal = Principal(
            kind: .hook, id: answer.subject, number: number, expiresAt: answer.expiresAt, grants: answer.grants)
        known.insert((principal, answer.cachedUntil), as: number, of: digest)
    }

    /// Principal of a question, for as long as the backend said.
    func principal(of digest: SecretDigest, at now: Timestamp) -> Principal? {
        known[digest].flatMap { now < $0.entry.cachedUntil ? $0.entry.principal.current(at: now) : nil }
    }

    func latest(of digest: SecretDigest, at now: Timestamp) -> Principal? {
        known[digest]?.entry.principal.current(at: now)
    }
}
