import StalecastStore
import StalecastWire

extension Adoption {
    /// Makes the store's form of the content that was seen at a scope's origin.
    ///
    /// - Parameter isNumbered: whether the origin's numbers are used; otherwise versions are counted here.
    init(_ scope: Scope, _ sight: OriginPoll.Sight, isNumbered: Bool) {
        var metadata = sight.metadata
        // Numbers counted here are not the origin's.
        if !isNumbered { metadata?.rollbackSource = nil }
        let isUrgent = sight.isUrgent || sight.description.contains(ChangeNotes.urgentMarker)
        self.init(
            scope: scope, template: sight.content.template, number: isNumbered ? sight.content.version : nil,
            metadata: metadata, notes: ChangeNotes(isUrgent: isUrgent))
    }
}

extension OriginProblem {
    static func older(_ version: VersionNumber?, than current: VersionNumber) -> OriginProblem {
        OriginProblem(
            .older,
            "the origin shows version \(version ?? 0), and version \(current) was adopted before: a replica that lags, or "
                + "an origin that began anew; for that one set versions: counted (firebase), or leave versionPointer out (http)"
        )
    }

    static func sameVersion(_ version: VersionNumber?) -> OriginProblem {
        OriginProblem(
            .sameVersion,
            "the origin shows other content under version \(version ?? 0) than was adopted; its version must grow with "
                + "every change; if it does not, set versions: counted (firebase), or leave versionPointer out (http)")
    }
}
