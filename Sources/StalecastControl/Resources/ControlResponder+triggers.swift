import StalecastStore
import StalecastWire

extension ControlResponder {
    /// `POST triggers`: an event that says that an origin has something new. 202 when a source looks because of it,
    /// 200 when there was no need to; a sender retries on anything else.
    func trigger(
        _ spelling: String, _ request: ControlRequest, _ body: [UInt8]
    ) throws(GoogleError) -> Answer {
        let trigger = triggerRequest(spelling, request)
        // The holder of the control token may know which projects there are.
        if trigger.isOperator { _ = try resolve(spelling) }
        switch dependencies.triggers.take(trigger, body) {
        case .taken(let events, let isLooking):
            return Answer(status: isLooking ? 202 : 200, ["events": .array(events)])
        case .unauthenticated: throw .unauthenticated
        case .notFound(let sentence): throw .notFound("Requested entity was not found: \(sentence)")
        case .malformed(let status, let sentence): throw GoogleError(status, "INVALID_ARGUMENT", sentence)
        }
    }

    /// Whether credentials other than the control token open this route.
    func admitsTrigger(_ route: Route, _ request: ControlRequest) -> Bool {
        guard case .trigger(let spelling) = route else { return false }
        return dependencies.triggers.admits(triggerRequest(spelling, request))
    }

    private func triggerRequest(_ spelling: String, _ request: ControlRequest) -> TriggerRequest {
        TriggerRequest(
            request: request, project: dependencies.store.projects.resolve(spelling),
            isOperator: dependencies.token.admits(authorization: request.headers["authorization"]))
    }
}
