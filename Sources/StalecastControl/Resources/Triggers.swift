import NIOHTTP1
import StalecastAccess
import StalecastHTTP
import StalecastSources
import StalecastStore
import StalecastWire

extension Control {
    /// A request to `triggers` in the form that ``TriggerService`` takes.
    func triggerPost(_ head: RequestHead, _ project: String, isOperator: Bool) -> TriggerService.Post {
        let query = QueryParameters(head.query)
        let headers = Dictionary(head.headers.map { ($0.name.lowercased(), $0.value) }) { first, _ in first }
        return TriggerService.Post(
            project: store.projects.resolve(project), headers: headers, token: query["token"],
            namespace: query["namespace"], isOperator: isOperator)
    }
}

extension Call {
    /// `POST triggers`: an event that says that an origin has something new. Answers 202 when it makes a source poll,
    /// and 200 when no poll was needed; on any other status the sender retries.
    func trigger() async throws(GoogleError) -> Answer {
        let isGranted = principal.map { control.may($0, .publish, project: names["project"]) } ?? false
        // A caller that may publish to the project may learn that it does not exist.
        if isGranted { _ = try project() }
        let post = control.triggerPost(head, names["project"], isOperator: isGranted)
        switch await control.triggers.take(post, body: body) {
        case .taken(let receipts):
            let isPolling = receipts.contains { $0.result == .polling }
            return Answer(status: isPolling ? 202 : 200, ["events": .array(receipts.map(\.json))])
        case .unauthenticated: throw .unauthenticated
        case .busy:
            throw GoogleError(503, "Too many posts are being judged; try again.").with("Retry-After", "1")
        case .notFound(let sentence): throw .notFound("Requested entity was not found: \(sentence)")
        case .malformed(let problem): throw GoogleError(problem.status, "INVALID_ARGUMENT", problem.description)
        }
    }
}
