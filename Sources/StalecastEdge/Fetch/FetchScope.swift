import CLinux
package import StalecastHTTP
import StalecastTemplate
import StalecastWire
import Synchronization

/// A scope as clients fetch it: its newest version and the finished answers of that.
package final class FetchScope: Sendable {
    typealias Cache = RenderingCache

    private struct Version: Sendable {
        let sequence: CommitSequence
        let template: CompiledTemplate
        let renderer: FetchRenderer

        init(_ template: CompiledTemplate, _ change: TemplateChange, projectNumber: UInt64) {
            self.template = template
            sequence = change.sequence
            renderer = FetchRenderer(
                template, version: change.version, scope: change.scope, projectNumber: projectNumber)
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

    /// The finished answer to an instance, and the seconds it took to render it; nil when it was there.
    func rendering(for context: EvaluationContext) -> (FetchRendering, seconds: Double?) {
        guard let version = current.withLock({ $0 }) else { return (withoutTemplate, nil) }
        let outcome = version.template.outcome(for: context)
        if let known = cache.rendering(of: outcome, in: scope, version.sequence) { return (known, nil) }
        let started = stalecast_monotonic_ns()
        let rendering = version.renderer.rendering(of: outcome)
        cache.keep(rendering, of: outcome, in: scope, version.sequence)
        return (rendering, Double(stalecast_monotonic_ns() &- started) / 1e9)
    }

    /// What answers a body: the changed config, or "no change" when `ifNoneMatch` names what would be sent.
    ///
    /// - Throws: 400 and 413 for a body that cannot be understood; 400 when the scope's clients are served elsewhere.
    package func answer(_ body: [UInt8], ifNoneMatch: String?, maxBodyBytes: Int) throws(GoogleError) -> FetchAnswer {
        if let elsewhere { throw GoogleError(400, elsewhere) }
        let object = try RequestBody.object(body, cap: maxBodyBytes)
        let context = try FetchRequest.context(object, at: .now())
        let (rendering, seconds) = rendering(for: context)
        return FetchAnswer(
            bytes: ETagSpelling.names(rendering.etag, in: ifNoneMatch) ? rendering.unchanged : rendering.update,
            dialect: FetchDialect(appID: context.appID ?? ""), renderingSeconds: seconds,
            client: FetchRequest.client(context, active: FetchFields(object).text(.activeVersion)), scope: scope,
            version: rendering.version)
    }
}
