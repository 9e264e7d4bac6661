import CLinux
package import StalecastHTTP
import StalecastTemplate
import StalecastWire
import Synchronization

/// A scope as clients fetch it: its newest version and the finished answers of that.
package final class FetchScope: Sendable {
    typealias Cache = RenderingCache

    /// A version that is served. A class, so that a fetch takes it with one reference count.
    private final class Version: Sendable {
        let sequence: CommitSequence
        let template: CompiledTemplate
        let renderer: FetchRenderer
        let outcomes: KnownOutcomes
        /// Grows with each evaluation that took long, and shrinks a little with each other one: a busy machine makes a
        /// few of them slow.
        private let slowness = Atomic<Int>(0)
        private static let maxSlowness = 256

        init(_ template: CompiledTemplate, _ change: TemplateChange, projectNumber: UInt64) {
            self.template = template
            sequence = change.sequence
            outcomes = KnownOutcomes(template.inputs)
            renderer = FetchRenderer(
                template, version: change.version, scope: change.scope, projectNumber: projectNumber)
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

    let scope: Scope
    let projectNumber: UInt64
    private let cache: Cache
    private let current = Mutex<Version?>(nil)
    private let withoutTemplate: FetchRendering
    /// A sentence that says who serves the scope's clients instead; nil where this daemon does.
    private let elsewhere: String?

    init(_ scope: Scope, projectNumber: UInt64, cache: Cache, elsewhere: String? = nil) {
        self.elsewhere = elsewhere
        self.scope = scope
        self.projectNumber = projectNumber
        self.cache = cache
        withoutTemplate = FetchRenderer(nil, version: 0, scope: scope, projectNumber: projectNumber)
            .rendering(of: nil)
    }

    /// From now on every answer is of this version or a newer one.
    func install(_ template: Template, _ change: TemplateChange) {
        let template = CompiledTemplate(template, kind: TemplateKind(namespace: scope.namespace))
        let version = Version(template, change, projectNumber: projectNumber)
        cache.begin(scope, change.sequence)
        current.withLock { $0 = version }
    }

    // MARK: Answers

    /// What answers a body: the changed config, or "no change" when `ifNoneMatch` names what would be sent.
    ///
    /// - Throws: 400 and 413 for a body that cannot be understood; 400 when the scope's clients are served elsewhere.
    package func answer(_ body: [UInt8], ifNoneMatch: String?, maxBodyBytes: Int) throws(GoogleError) -> FetchAnswer {
        if let elsewhere { throw GoogleError(400, elsewhere) }
        let plain = try RequestBody.inflated(body, cap: maxBodyBytes)
        let answer = try plain.withUnsafeBufferPointer { bytes throws(GoogleError) -> FetchAnswer? in
            guard let scan = FetchScan(bytes) else { return nil }
            return try self.answer(scan, ifNoneMatch, isPatient: true)
        }
        if let answer { return answer }
        let fields = FetchFields(try RequestBody.object(plain: plain))
        let context = try FetchRequest.context(fields, at: .now())
        let found = rendering(for: current.withLock { $0 }) { $0.template.outcome(for: context) }
        return finished(found, fields, appID: context.appID ?? "", ifNoneMatch)
    }

    /// What answers an ordinary body, on a thread that has streams to write to.
    ///
    /// - Returns: nil where the body is not ordinary, cannot be understood, or would take long to answer.
    func answerAtOnce(_ body: UnsafeBufferPointer<UInt8>, ifNoneMatch: String?) -> FetchAnswer? {
        guard elsewhere == nil, let scan = FetchScan(body) else { return nil }
        // The Front, which answers instead, says what is wrong with the body.
        return try? answer(scan, ifNoneMatch, isPatient: false)
    }

    /// - Returns: nil only without patience.
    private func answer(
        _ scan: FetchScan, _ ifNoneMatch: String?, isPatient: Bool
    ) throws(GoogleError) -> FetchAnswer? {
        let appID = try scan.required(.appID)
        for field in [FetchField.instanceID, .token] where !scan.has(field) { throw .missing(field) }
        let version = current.withLock { $0 }
        let key = version?.outcomes.key(of: scan)
        if let version, let key, let outcome = version.outcomes.outcome(of: key) {
            if let known = cache.rendering(of: outcome, in: scope, version.sequence) {
                return finished((known, nil), scan, appID: appID, ifNoneMatch)
            }
            if version.isSlow, !isPatient { return nil }
            return finished(rendering(for: version) { _ in outcome }, scan, appID: appID, ifNoneMatch)
        }
        if let version, version.isSlow, !isPatient { return nil }
        let context = try FetchRequest.context(scan, at: .now())
        let found = rendering(for: version) { version in
            let outcome = version.template.outcome(for: context)
            if let key { version.outcomes.keep(outcome, of: key) }
            return outcome
        }
        return finished(found, scan, appID: appID, ifNoneMatch)
    }

    /// The finished answer of an outcome, and the seconds it took to render it; nil when it was there.
    private func rendering(
        for version: Version?, _ outcome: (Version) -> ConditionOutcome
    ) -> (FetchRendering, seconds: Double?) {
        guard let version else { return (withoutTemplate, nil) }
        let began = stalecast_monotonic_ns()
        let outcome = outcome(version)
        if let known = cache.rendering(of: outcome, in: scope, version.sequence) {
            version.note(nanoseconds: stalecast_monotonic_ns() &- began)
            return (known, nil)
        }
        let started = stalecast_monotonic_ns()
        let rendering = version.renderer.rendering(of: outcome)
        cache.keep(rendering, of: outcome, in: scope, version.sequence)
        let ended = stalecast_monotonic_ns()
        version.note(nanoseconds: ended &- began)
        return (rendering, Double(ended &- started) / 1e9)
    }

    private func finished(
        _ found: (rendering: FetchRendering, seconds: Double?), _ members: some FetchMembers, appID: String,
        _ ifNoneMatch: String?
    ) -> FetchAnswer {
        let rendering = found.rendering
        return FetchAnswer(
            bytes: ETagSpelling.names(rendering.etag, in: ifNoneMatch) ? rendering.unchanged : rendering.update,
            dialect: FetchDialect(appID: appID), renderingSeconds: found.seconds,
            client: FetchRequest.client(members, appID: appID), scope: scope, version: rendering.version)
    }
}
