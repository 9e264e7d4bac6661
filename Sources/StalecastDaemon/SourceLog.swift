import Logging
import StalecastSources
import StalecastWire

extension Logger {
    /// A source's report as a line of ours.
    func log(_ report: SourceWatcher.Report, of scope: Scope, kind: SourceKind) {
        var metadata: Logger.Metadata = ["scope": "\(scope)", "kind": "\(kind.rawValue)"]
        switch report {
        case .adopted(let version, let hasFenceTimedOut):
            metadata["version"] = "\(version)"
            if hasFenceTimedOut { metadata["fence"] = "timeout" }
            info("source has a new version", metadata: metadata)
        case .problem(let problem):
            metadata["reason"] = "\(problem.reason.rawValue)"
            metadata["error"] = "\(problem.description)"
            warning("source cannot be used", metadata: metadata)
        case .recovered(let failures):
            metadata["failures"] = "\(failures)"
            info("source is well again", metadata: metadata)
        case .fenceTimeout(let seen):
            metadata["seen"] = "\(seen)"
            warning("origin does not show its new version to clients", metadata: metadata)
        }
    }
}
