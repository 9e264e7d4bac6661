package import StalecastAccess
package import StalecastHTTP
package import StalecastHub
import StalecastWire

/// Rules for listening and fetching; part of ``EdgeSettings``.
package struct EdgeAccess: Sendable, Equatable {
    package enum Mode: String, Sendable, CaseIterable {
        /// Checks no credentials but `edge.apiKeys`.
        case off
        /// Admits as `off` does; counts and logs callers that would be refused.
        case observe
        case enforce
    }

    /// Default off.
    package var mode = Mode.off
    /// nil only where `mode` is off.
    package var authorizer: Authorizer?

    package init() {}

    package init(_ mode: Mode, _ authorizer: Authorizer) {
        self.mode = mode
        self.authorizer = authorizer
    }

    package static func == (a: Self, b: Self) -> Bool { a.mode == b.mode && a.authorizer === b.authorizer }

    /// Whether what a client showed in the handshake matters.
    var takesCertificates: Bool { mode != .off && authorizer?.takesCertificates ?? false }

    /// Whether the user's backend is to be asked about a request like this.
    func isForHook(_ credentials: Credentials) -> Bool {
        guard mode != .off, let authorizer, authorizer.hook.isOn else { return false }
        return !authorizer.isOwn(credentials)
    }

    /// Keeps a stream's principal known. Also where `mode` only observes: a reload may enforce later.
    func hold(_ number: Int32) -> PrincipalHold? { number == 0 ? nil : authorizer?.hold(number) }

    /// Principal that a stream's slot stands for, where that matters still.
    func currentPrincipal(of number: Int32) -> Principal? {
        guard mode == .enforce, let authorizer else { return nil }
        return authorizer.currentPrincipal(of: number)
    }
}

/// Topics that a request may hear: each is one name in one scope, or the client's stage of it. The fan-out checks no
/// permission any more.
package struct AdmittedTopics {
    var known: [Topic.Index]
    /// Names without a topic, or whose topics this principal may not hear; a client cannot tell the two apart.
    let unknown: [TopicName]
    /// See ``Principal/number``.
    var principal: Int32 = 0
    /// See ``APIKeys/mark(_:)``.
    var apiKey: UInt32 = 0
    /// Milliseconds until the credential expires; nil: it does not.
    var expiresInMs: Int?
}

extension EdgeSettings {
    /// Like ``decide(_:on:counts:)``, for requests whose token was verified.
    package func admit(_ request: StreamRequest, on board: TopicBoard, counts: Bool) throws(GoogleError)
        -> AdmittedTopics
    {
        guard let topics = try decide(request, on: board, counts: counts) else { throw .denied(.notReady) }
        return topics
    }

    /// Decides which topics a request may hear, by their decoded and resolved names. A refusal does not show which
    /// topics exist.
    ///
    /// - Parameter counts: false for a request that was decided before, so that its refusal is counted once.
    /// - Returns: nil where the token must be verified first.
    func decide(_ request: StreamRequest, on board: TopicBoard, counts: Bool) throws(GoogleError) -> AdmittedTopics? {
        let isEnforced = access.mode == .enforce
        let decided = try isEnforced ? permitted(request, on: board, counts: counts) : open(request, on: board, counts)
        guard var topics = decided else { return nil }
        topics.apiKey = APIKeys.mark(request.credentials.plainKey)
        if board.isSplit { topics.known = board.seats(of: topics.known, for: request.clientKey) }
        return topics
    }

    /// Whether something changed that may have taken a running stream's right from it.
    func mayRevoke(after former: EdgeSettings) -> Bool { access != former.access || keys != former.keys }

    /// Decides in the modes `off` and `observe`, in which grants refuse no request.
    private func open(
        _ request: StreamRequest, on board: TopicBoard, _ counts: Bool
    ) throws(GoogleError) -> AdmittedTopics? {
        try keys.check(request.credentials.plainKey)
        let (known, unknown) = try request.topics(on: board)
        var admitted = AdmittedTopics(known: known, unknown: unknown)
        if access.mode == .observe {
            do throws(GoogleError) {
                let topics = try permitted(request, on: board, counts: counts)
                // An unverified token is verified once, so that a refusal of it is counted.
                if topics == nil, counts, request.credentials.verification == nil { return nil }
                // Kept for a reload that enforces: it must end only streams whose credential is not enough.
                admitted.principal = topics?.principal ?? 0
            } catch {
                // Mode `observe` ignores a refusal.
            }
        }
        return admitted
    }

    private func permitted(
        _ request: StreamRequest, on board: TopicBoard, counts: Bool
    ) throws(GoogleError) -> AdmittedTopics? {
        let found = try authenticate(request.credentials, counts: counts, of: request.words)
        guard case .known(let principal) = found else { return nil }
        func refused(_ reason: Denial) -> GoogleError { deny(reason, request.credentials, counts, request.words) }
        if case .redeemed(let ticket)? = request.credentials.verification, !ticket.opens(request, on: board) {
            throw refused(.notGranted)
        }
        // Refuses before the look-up of topics, whose time would tell a stranger whether they exist.
        guard request.isAbout(principal, on: board) else { throw refused(.notGranted) }
        let known = try request.topics(on: board).known.filter { principal.may(.watch, topic: board[$0]) }
        guard !known.isEmpty else { throw .unknownTopic }
        let unknown = request.topics.filter { name in !known.contains { board[$0].name == name } }
        return AdmittedTopics(
            known: known, unknown: unknown, principal: principal.number, expiresInMs: principal.expiresInMs)
    }

    /// Checks whether a request that is answered at once is permitted.
    ///
    /// - Parameter isPermitted: asked for a principal that is known.
    func check(
        _ credentials: Credentials, of words: @autoclosure () -> String, _ isPermitted: (Principal) -> Bool
    ) throws(GoogleError) {
        if access.mode == .off { return try keys.check(credentials.plainKey) }
        do throws(GoogleError) {
            let found = try authenticate(credentials, counts: true, of: words())
            guard case .known(let principal) = found else { throw .denied(.notReady) }
            if !isPermitted(principal) { throw deny(.notGranted, credentials, true, words()) }
        } catch {
            if access.mode == .enforce { throw error }
        }
        // Grants refuse nothing in this mode, so the API keys go on to decide.
        if access.mode == .observe { try keys.check(credentials.plainKey) }
    }

    /// Like `check`, but silent: records no error and no count. Always true unless grants decide.
    func permits(_ credentials: @autoclosure () -> Credentials, _ isPermitted: (Principal) -> Bool) -> Bool {
        guard access.mode == .enforce, let authorizer = access.authorizer else { return true }
        // The check itself gives the caller the reason.
        guard let principal = try? authorizer.admit(credentials(), at: .edge) else { return false }
        return isPermitted(principal)
    }

    /// Whether a fetch may be answered. Counts and logs nothing: where this is false, ``check(_:of:_:)`` says why.
    func mayFetch(_ credentials: Credentials, from scope: Scope) -> Bool {
        if access.mode != .enforce, (try? keys.check(credentials.plainKey)) == nil { return false }
        if access.mode == .off { return true }
        // Refused: false.
        guard let principal = try? access.authorizer?.admit(credentials, at: .edge) else { return false }
        return !principal.isNobody && principal.may(.fetch, in: scope)
    }

    private func authenticate(
        _ credentials: Credentials, counts: Bool, of words: @autoclosure () -> String
    ) throws(GoogleError) -> Authorizer.Authentication {
        guard let authorizer = access.authorizer else { throw .denied(.missing) }
        do throws(Denial) {
            let found = try authorizer.authenticate(credentials, at: .edge)
            if case .known(let principal) = found, principal.isNobody { throw .missing }
            return found
        } catch { throw deny(error, credentials, counts, words()) }
    }

    /// Counts a refusal that was decided outside this extension.
    func countRefusal(_ reason: Denial, of request: FrontRequest) {
        _ = deny(reason, request.credentials, true, request.loggedPath)
    }

    private func deny(
        _ reason: Denial, _ credentials: Credentials, _ counts: Bool, _ words: @autoclosure () -> String
    ) -> GoogleError {
        if counts {
            access.authorizer?.count(
                reason, at: .edge, isEnforced: access.mode == .enforce, credentials, of: words())
        }
        return .denied(reason)
    }
}

extension GoogleError {
    /// One sentence for all reasons that have a status.
    static func denied(_ reason: Denial) -> GoogleError {
        switch reason.status {
        case 400: return .invalidArgument("the request has two different credentials, or one of them twice; send one")
        case 403:
            return GoogleError(403, "the credential has no grant for this").with(
                "WWW-Authenticate", "Bearer error=\"insufficient_scope\"")
        case 429:
            return GoogleError(429, "too many bad credentials from this address").with("Retry-After", "1")
        case 503:
            return GoogleError(503, "it cannot be said yet whether the credential is good; try again").with(
                "Retry-After", "2")
        default:
            let error = reason == .missing ? "realm=\"stalecast\"" : "error=\"invalid_token\""
            return GoogleError(
                401, "this asks for a credential that is good; send Authorization: Bearer <key or token>"
            ).with("WWW-Authenticate", "Bearer \(error)")
        }
    }
}

extension Principal {
    /// Whether the caller is anonymous and has no grant.
    fileprivate var isNobody: Bool { kind == .anonymous && grants.isEmpty }

    /// Whether it may hear a topic, which is of one scope.
    func may(_ action: AccessAction, topic: Topic) -> Bool {
        may(action, in: topic.scope, topic.isInvalidation ? .all : .named(topic.name))
    }

    /// Milliseconds until the credential expires, at least 0; nil: it does not.
    var expiresInMs: Int? {
        expiresAt.map { end in
            let (left, overflow) = end.microseconds.subtractingReportingOverflow(Timestamp.now().microseconds)
            return overflow ? Int(Int32.max) : Int(min(max(0, left / 1000), Int64(Int32.max)))
        }
    }
}

extension Ticket {
    /// Whether a request is for no more than the ticket was made for.
    fileprivate func opens(_ request: StreamRequest, on board: TopicBoard) -> Bool {
        func id(_ project: String?) -> String? { project.map { board.projectID($0)?.description ?? $0 } }
        return request.topics.allSatisfy(topics.contains) && (project == nil || id(project) == id(request.project))
            && (namespace == nil || namespace == request.namespace)
    }
}

extension StreamRequest {
    /// Whether the principal has a grant for such names. Only then may the answer say that a topic does not exist.
    fileprivate func isAbout(_ principal: Principal, on board: TopicBoard) -> Bool {
        guard let project = board.projectID(project)?.description ?? project else {
            return principal.maySomewhere(.watch)
        }
        return topics.contains {
            principal.may(.watch, project: project, namespace: namespace, kind.isOfScope ? .all : .named($0))
        }
    }

    fileprivate var words: String {
        let path =
            switch kind {
            case .events: "/v1/events"
            case .poll: "/v1/poll"
            case .state: "/v1/state"
            case .invalidations: ":streamFetchInvalidations"
            case .pings: "ping"
            }
        return "\(path) \(project ?? "") \(topics.prefix(3).map(\.description).joined(separator: ","))"
    }
}

/// The API keys of `edge.apiKeys`, which Firebase's clients must show; they name an app and are no secret of a person,
/// yet are not logged.
package struct APIKeys: Sendable, Equatable {
    private let digests: [SecretDigest]

    /// Makes the set of accepted keys; an empty one admits every caller.
    package init(_ keys: [String]) { digests = keys.map { SecretDigest(of: $0) } }

    /// Mark of the key that a stream showed, so that a reload that withdraws the key ends the stream; 0: none. With 32
    /// bits a withdrawn key counts as another one for one in four billion.
    static func mark(_ offered: String?) -> UInt32 { offered.map { mark(SecretDigest(of: $0)) } ?? 0 }

    private static func mark(_ digest: SecretDigest) -> UInt32 { max(1, digest.mark) }

    /// Whether a stream that showed the key of a mark may go on.
    func admit(_ mark: UInt32) -> Bool { digests.isEmpty || digests.contains { Self.mark($0) == mark } }

    /// - Throws: 403.
    func check(_ offered: String?) throws(GoogleError) {
        guard !digests.isEmpty else { return }
        guard let offered, digests.holds(SecretDigest(of: offered)) else {
            throw GoogleError(403, "the API key is missing or not one of this server's")
        }
    }
}
