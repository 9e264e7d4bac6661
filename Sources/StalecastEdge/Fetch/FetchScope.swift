import CLinux
package import StalecastHTTP
import StalecastHub
import StalecastTemplate
package import StalecastWire
import Synchronization

/// A scope as clients fetch it: its newest version and the finished answers of that. While a release is open, clients
/// of the stages that were told get its version, and all others the one before.
package final class FetchScope: Sendable {
    typealias Cache = RenderingCache

    /// A version that is served. A class, so that a fetch takes it with one reference count.
    final class Version: Sendable {
        let change: TemplateChange
        let template: CompiledTemplate
        let renderer: FetchRenderer
        let outcomes: KnownOutcomes
        private let projectNumber: UInt64
        /// Made when a client of such a dialect first asks: most daemons have none.
        private let madeFlags = Mutex<[FlagForm: FlagRenderer]>([:])
        /// Grows with each evaluation that took long, and shrinks a little with each other one: a busy machine makes a
        /// few of them slow.
        private let slowness = Atomic<Int>(0)
        private static let maxSlowness = 256

        init(_ ready: ReadyTemplate, _ change: TemplateChange, projectNumber: UInt64) {
            (template, self.change, self.projectNumber) = (ready.compiled, change, projectNumber)
            outcomes = KnownOutcomes(template.inputs)
            renderer = FetchRenderer(
                ready, version: change.version, scope: change.scope, projectNumber: projectNumber)
        }

        var sequence: CommitSequence { change.sequence }

        func hasFlags(_ form: FlagForm) -> Bool { madeFlags.withLock { $0[form] != nil } }
        /// Takes milliseconds for a large template, the first time.
        func flags(_ form: FlagForm) -> FlagRenderer {
            if let made = madeFlags.withLock({ $0[form] }) { return made }
            let renderer = FlagRenderer(
                form, template, version: change.version, scope: change.scope, projectNumber: projectNumber)
            return madeFlags.withLock { made in
                let kept = made[form] ?? renderer
                made[form] = kept
                return kept
            }
        }

        /// Outcome of its conditions for a context; the same contexts, and fetches that say the same, are evaluated once.
        func outcome(of members: some FlagMembers, _ scan: FetchScan?) -> ConditionOutcome {
            let key = scan.flatMap { outcomes.key(of: $0) }
            if let known = key.flatMap({ outcomes.outcome(of: $0) }) { return known }
            return outcome(of: FlagContext.context(members, at: .now()), as: key)
        }

        /// - Parameter key: nil for a context whose outcome is not kept.
        func outcome(of context: EvaluationContext, as key: KnownOutcomes.Key?) -> ConditionOutcome {
            let started = stalecast_monotonic_ns()
            defer { note(nanoseconds: stalecast_monotonic_ns() &- started) }
            func evaluate() -> ConditionOutcome { template.outcome(for: context) }
            guard let key else { return evaluate() }
            return outcomes.outcome(of: key, evaluate: evaluate)
        }

        /// Whether an answer that is not known costs more than a stream should wait for.
        var isSlow: Bool { slowness.load(ordering: .relaxed) >= Self.maxSlowness }

        func note(nanoseconds: UInt64) {
            let before = slowness.load(ordering: .relaxed)
            let isSlow = nanoseconds > 500_000
            if isSlow ? before > Self.maxSlowness : before == 0 { return }
            slowness.wrappingAdd(isSlow ? Self.maxSlowness / 4 : -1, ordering: .relaxed)
        }
    }

    /// The versions that are served now: one, or two while a release is open.
    fileprivate struct Served {
        /// Version of the clients that no open release covers.
        var version: Version?
        var candidate: Version?
        var cut: ReleaseCut?
        /// Number of stages that get the candidate.
        var stages = 0

        func version(for key: ClientKey?) -> Version? {
            guard let candidate, let cut else { return version }
            guard let key else { return candidate }
            return cut.stage(of: key) < stages ? candidate : version
        }
    }

    /// Versions that are served no more, with their answers. Freeing thousands of parts takes most of a millisecond, so
    /// the installer keeps them until it has time.
    package struct Former: Sendable {
        fileprivate let served: Served
        fileprivate let renderings: Cache.Forgotten
    }

    let scope: Scope
    let projectNumber: UInt64
    let cache: Cache
    private let current = Mutex(Served())
    private let withoutTemplate: FetchRendering
    /// Sentence that names the server of the scope's clients; nil when this daemon serves them.
    let elsewhere: String?

    init(_ scope: Scope, projectNumber: UInt64, cache: Cache, elsewhere: String? = nil) {
        (self.elsewhere, self.scope, self.projectNumber, self.cache) = (elsewhere, scope, projectNumber, cache)
        withoutTemplate = FetchRenderer(nil, version: 0, scope: scope, projectNumber: projectNumber)
            .rendering(of: nil)
    }

    /// Installs a version: from now on every answer is of it or of a newer one.
    ///
    /// - Returns: what was served before.
    func install(_ template: ReadyTemplate, _ change: TemplateChange) -> Former {
        let version = Version(template, change, projectNumber: projectNumber)
        // Both before clients get the version: the first of them need not wait, and their answers find a place.
        makeFlags(of: version)
        let renderings = cache.begin(scope, [change.sequence])
        return current.withLock { served in
            defer { served = Served(version: version) }
            return Former(served: served, renderings: renderings)
        }
    }

    /// Serves this version to the first `stages` of a cut from now on; other clients get the same as before.
    func stage(_ template: ReadyTemplate, _ change: TemplateChange, _ cut: ReleaseCut, stages: Int) {
        guard stages < cut.bounds.count else {
            _ = install(template, change)
            return
        }
        let candidate = Version(template, change, projectNumber: projectNumber)
        makeFlags(of: candidate)
        let base = current.withLock { $0.version?.sequence }
        // Clients ask for both versions while the release is staged, and the cache forgets those of any other.
        cache.begin(scope, [base, change.sequence].compactMap(\.self))
        current.withLock { served in
            (served.candidate, served.cut, served.stages) = (candidate, cut, stages)
        }
    }

    /// Serves the version of the open release to so many stages; with all of them it is the only one.
    func cover(stages: Int) {
        let end = current.withLock { served -> CommitSequence? in
            served.stages = stages
            guard let candidate = served.candidate, stages >= served.cut?.bounds.count ?? 0 else { return nil }
            served = Served(version: candidate)
            return candidate.sequence
        }
        if let end { cache.begin(scope, [end]) }
    }

    /// Makes the flags in each form in which a version that is served now was asked for them.
    private func makeFlags(of next: Version) {
        let served = current.withLock { [$0.version, $0.candidate] }
        for form in FlagForm.allCases where served.contains(where: { $0?.hasFlags(form) == true }) {
            _ = next.flags(form)
        }
    }

    /// Version of a client, by its id where it has one, else by its address. Neither is read while no release is open.
    ///
    /// - Parameter address: nil is a canary, which gets the newest version.
    func version(of id: @autoclosure () -> String?, _ address: UInt64?) -> Version? {
        let (version, isStaged) = current.withLock { ($0.version, $0.candidate != nil) }
        guard isStaged else { return version }
        let key = address.map { address in
            ClientIdentity(id() ?? "").map { ClientKey(id: $0.id) } ?? ClientKey(address: address)
        }
        return current.withLock { $0.version(for: key) }
    }

    // MARK: Answers

    /// Answer to a body: the changed config, or "no change" when `ifNoneMatch` names what would be sent.
    ///
    /// - Parameter address: stands for a client without an id in a release; nil is a canary, which gets the newest
    ///   version.
    /// - Throws: 400 and 413 for a body that cannot be understood; 400 when the scope's clients are served elsewhere.
    package func answer(
        _ body: [UInt8], ifNoneMatch: String?, maxBodyBytes: Int, address: UInt64? = nil
    ) throws(GoogleError) -> FetchAnswer {
        if let elsewhere { throw GoogleError(400, elsewhere) }
        let plain = try RequestBody.inflated(body, cap: maxBodyBytes)
        let answer = try plain.withUnsafeBufferPointer { bytes throws(GoogleError) -> FetchAnswer? in
            guard let scan = FetchScan(bytes) else { return nil }
            return try self.answer(scan, ifNoneMatch, address, isPatient: true)
        }
        if let answer { return answer }
        let fields = FetchFields(try RequestBody.object(plain: plain))
        let context = try FetchRequest.context(fields, at: .now())
        let version = version(of: fields.text(.instanceID), address)
        return finished(version, version?.outcome(of: context, as: nil), fields, context.appID ?? "", ifNoneMatch)
    }

    /// Values of a version for clients that send no context, so that no condition is true for them. The answer never
    /// changes and may be cached without end.
    ///
    /// - Throws: 404 for an older version, and, to be tried again, for one that is not here or not released to all.
    func values(of wanted: VersionNumber) throws(GoogleError) -> FetchBytes {
        if let elsewhere { throw GoogleError(400, elsewhere) }
        let version = current.withLock { $0.version }
        let served = version?.change.version ?? 0
        guard let version, served == wanted else { throw .notServed(wanted, served) }
        return rendering(version, version.template.outcomeOfNone).0.update
    }

    /// Answer to an ordinary body, on a thread that has streams to write to.
    ///
    /// - Returns: nil where the body is not ordinary, cannot be understood, or would take long to answer.
    func answerAtOnce(
        _ body: UnsafeBufferPointer<UInt8>, ifNoneMatch: String?, address: UInt64?
    ) -> FetchAnswer? {
        guard elsewhere == nil else { return nil }
        guard Inflater.recognises(body) else { return answerAtOnce(plain: body, ifNoneMatch, address) }
        // iOS packs its bodies. The Front answers those that are damaged or larger.
        guard let plain = try? RequestBody.inflated(Array(body), cap: Self.maxInflatedBytes) else { return nil }
        return plain.withUnsafeBufferPointer { answerAtOnce(plain: $0, ifNoneMatch, address) }
    }

    /// Most bytes of a body that is inflated on a thread that has streams to write to.
    private static let maxInflatedBytes = 16_384

    private func answerAtOnce(
        plain body: UnsafeBufferPointer<UInt8>, _ ifNoneMatch: String?, _ address: UInt64?
    ) -> FetchAnswer? {
        guard let scan = FetchScan(body) else { return nil }
        // The Front, which answers instead, says what is wrong with the body.
        return try? answer(scan, ifNoneMatch, address, isPatient: false)
    }

    /// - Returns: nil only without patience.
    private func answer(
        _ scan: FetchScan, _ ifNoneMatch: String?, _ address: UInt64?, isPatient: Bool
    ) throws(GoogleError) -> FetchAnswer? {
        let appID = try scan.required(.appID)
        for field in [FetchField.instanceID, .token] where !scan.has(field) { throw .missing(field) }
        guard let version = version(of: scan.text(.instanceID), address) else {
            return finished(nil, nil, scan, appID, ifNoneMatch)
        }
        let key = version.outcomes.key(of: scan)
        let known = key.flatMap { version.outcomes.outcome(of: $0) }
        if !isPatient, version.isSlow,
            known.flatMap({ cache.rendering(of: $0, in: scope, version.sequence) }) == nil
        {
            return nil
        }
        let outcome =
            if let known { known } else { version.outcome(of: try FetchRequest.context(scan, at: .now()), as: key) }
        return finished(version, outcome, scan, appID, ifNoneMatch)
    }

    /// The finished answer of an outcome in a form, and the seconds it took to render it; nil when it was there.
    ///
    /// - Parameters:
    ///   - form: nil is Firebase's.
    ///   - version: nil where the scope has none.
    func rendering(
        in form: FlagForm? = nil, _ version: Version?, _ outcome: ConditionOutcome?
    ) -> (FetchRendering, seconds: Double?) {
        guard let version, let outcome else { return (withoutTemplate(form), nil) }
        let cache = if let form { self.cache.cache(of: form) } else { self.cache as Cache? }
        if let known = cache?.rendering(of: outcome, in: scope, version.sequence) { return (known, nil) }
        let started = stalecast_monotonic_ns()
        let rendering =
            form.map { version.flags($0).rendering(of: outcome) } ?? version.renderer.rendering(of: outcome)
        cache?.keep(rendering, of: outcome, in: scope, version.sequence)
        let spent = stalecast_monotonic_ns() &- started
        version.note(nanoseconds: spent)
        return (rendering, Double(spent) / 1e9)
    }

    private func withoutTemplate(_ form: FlagForm?) -> FetchRendering {
        guard let form else { return withoutTemplate }
        let nothing = CompiledTemplate(.empty)
        let renderer = FlagRenderer(form, nothing, version: 0, scope: scope, projectNumber: projectNumber)
        return renderer.rendering(of: nothing.outcome(for: EvaluationContext(now: .now())))
    }

    private func finished(
        _ version: Version?, _ outcome: ConditionOutcome?, _ members: some FetchMembers, _ appID: String,
        _ ifNoneMatch: String?
    ) -> FetchAnswer {
        answer(
            rendering(version, outcome), unless: ifNoneMatch, FetchDialect(appID: appID),
            FetchRequest.client(members, appID: appID))
    }

    func answer(
        _ found: (rendering: FetchRendering, seconds: Double?), unless held: String?, _ dialect: FetchDialect,
        _ client: ClientIdentity?
    ) -> FetchAnswer {
        FetchAnswer(
            bytes: found.rendering.bytes(unless: held), dialect: dialect, renderingSeconds: found.seconds,
            client: client, scope: scope, version: found.rendering.version)
    }
}

extension GoogleError {
    fileprivate static func notServed(_ wanted: VersionNumber, _ served: VersionNumber) -> GoogleError {
        if wanted > served {
            let sentence = "version \(wanted) is not here, or not released to all yet; try again"
            return GoogleError(404, sentence).with("Retry-After", "1")
        }
        return GoogleError(404, "version \(wanted) is not served any more; the newest is \(served)")
    }
}

extension RequestBody {
    /// The body of a POST as Firebase's clients send it.
    ///
    /// - Parameter cap: the most bytes after inflation.
    /// - Throws: 413 beyond `cap`, 400 for damaged gzip and for what is no object.
    package static func object(_ body: [UInt8], cap: Int) throws(GoogleError) -> JSONObject {
        try object(plain: try inflated(body, cap: cap))
    }

    /// Reads a body that is inflated, as ``object(_:cap:)`` does.
    static func object(plain: [UInt8]) throws(GoogleError) -> JSONObject {
        do { return try LenientJSON.object(plain) } catch {
            throw .invalidArgument("Invalid JSON payload received. \(error.description)")
        }
    }
}
