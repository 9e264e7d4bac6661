import StalecastHTTP
import StalecastHub
import StalecastWire

extension FrontRouter {
    /// Firebase's real-time stream. A client that knows no version, or an older one, is told the newest at once.
    func invalidations(
        _ project: String, _ namespace: String, _ request: FrontRequest
    ) throws(Refusal) -> FrontOutcome {
        try checkKey(of: request)
        let scope = try served.scope(project, namespace).scope
        guard board.invalidations(of: scope) != nil else { throw Refusal(status: 404, sentence: "no such namespace") }
        let body = try RequestBody.object(request.body, cap: settings.maxBodyBytes)
        let known = (body["lastKnownVersionNumber"] ?? body["last_known_version_number"])?.int64 ?? 0
        let headers = request.streamHeaders
        return .subscribe(
            StreamRequest(
                kind: .invalidations, topics: [.ofScope(scope)], project: scope.project.description,
                resume: ResumePoint(have: VersionNumber(clamping: known)), isHTTP11: headers.isHTTP11,
                keepAlive: headers.keepAlive, origin: headers.origin))
    }
}
