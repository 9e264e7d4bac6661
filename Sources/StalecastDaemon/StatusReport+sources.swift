import StalecastSources
import StalecastWire

extension StatusReport {
    /// The member `sources`: one object for each scope that is fed.
    func sources() -> [JSONValue] {
        let now = ContinuousClock.now
        return daemon.sources.watchers.map { $0.status.json(at: now, serve: daemon.sources.serving(of: $0.scope)) }
    }
}

extension SourceStatus {
    /// Ages and pauses in seconds. Members that say nothing are left out: no `error` means that all is well.
    ///
    /// - Parameter serve: `full` or `notify`.
    func json(at now: ContinuousClock.Instant, serve: String) -> JSONValue {
        var object: JSONObject = [
            "project": .string(scope.project.description), "namespace": .string(scope.namespace.description),
            "kind": .string(kind.rawValue), "place": .string(place), "serve": .string(serve),
            "ageSeconds": .double(age(at: now).roundedSeconds), "looks": .int(counts.looks),
        ]
        object["lastLook"] = lastLook.map { .string($0.description) }
        object["lastSuccess"] = lastSuccess.map { .string($0.description) }
        object["lastChange"] = lastChange.map { .string($0.description) }
        object["originVersionNumber"] = originVersion.map { .string(String($0)) }
        object["nextLookSeconds"] = nextLookAt.map { .double(max(.zero, $0 - now).roundedSeconds) }
        object["adopted"] = .int(counts.adopted)
        object["triggers"] = .int(counts.triggers)
        object["fenceTimeouts"] = .int(counts.fenceTimeouts)
        if let problem {
            var error: JSONObject = [
                "reason": .string(problem.reason.rawValue), "message": .string(problem.description),
                "failures": .int(failures),
            ]
            error["since"] = problemSince.map { .string($0.description) }
            object["error"] = .object(error)
        }
        if let listening {
            var stream: JSONObject = ["open": .bool(listening.isOpen)]
            stream["problem"] = listening.problem.map(JSONValue.string)
            object["stream"] = .object(stream)
        }
        return .object(object)
    }
}

extension Duration {
    /// To the millisecond.
    fileprivate var roundedSeconds: Double { (self / .milliseconds(1)).rounded() / 1000 }
}
