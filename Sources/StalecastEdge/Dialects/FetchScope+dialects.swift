import CLinux
import StalecastTemplate
import StalecastWire

extension FetchScope {
    /// The finished answer of an outcome in a form, and the seconds it took to render it; nil when it was there.
    ///
    /// - Parameter version: nil where the scope has none.
    func rendering(
        _ form: FlagForm, _ version: Version?, _ outcome: ConditionOutcome?
    ) -> (FetchRendering, seconds: Double?) {
        guard let version, let outcome else {
            let nothing = CompiledTemplate(.empty)
            let renderer = FlagRenderer(form, nothing, version: 0, scope: scope, projectNumber: projectNumber)
            return (renderer.rendering(of: nothing.outcome(for: EvaluationContext(now: .now()))), nil)
        }
        let cache = cache.cache(of: form)
        if let known = cache?.rendering(of: outcome, in: scope, version.sequence) { return (known, nil) }
        let started = stalecast_monotonic_ns()
        let rendering = version.flags(form).rendering(of: outcome)
        cache?.keep(rendering, of: outcome, in: scope, version.sequence)
        let spent = stalecast_monotonic_ns() &- started
        version.note(nanoseconds: spent)
        return (rendering, Double(spent) / 1e9)
    }
}

extension FetchScope.Version {
    /// Outcome of its conditions for a context; the same contexts, and fetches that say the same, are evaluated once.
    func outcome(of members: some FlagMembers, _ scan: FetchScan?) -> ConditionOutcome {
        let key = scan.flatMap { outcomes.key(of: $0) }
        if let known = key.flatMap({ outcomes.outcome(of: $0) }) { return known }
        let started = stalecast_monotonic_ns()
        defer { note(nanoseconds: stalecast_monotonic_ns() &- started) }
        func evaluate() -> ConditionOutcome { template.outcome(for: FlagContext.context(members, at: .now())) }
        guard let key else { return evaluate() }
        return outcomes.outcome(of: key, evaluate: evaluate)
    }
}

extension FetchRendering {
    /// - Parameter held: the tags that the client holds.
    func bytes(unless held: String?) -> FetchBytes { ETagSpelling.names(etag, in: held) ? unchanged : update }
}
