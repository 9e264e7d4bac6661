import StalecastHTTP
import StalecastStore
import StalecastTemplate
import StalecastWire

extension TemplateResource {
    /// `GET serverRemoteConfig`: the newest version as Admin SDKs load it to evaluate it themselves. While there is none
    /// it is empty, of version 0, as the client template is: an app's server that starts first has its own defaults.
    func serverTemplate(_ call: Call) async throws(GoogleError) -> Answer {
        try await read(nil, call) { version in
            let json = ServerTemplate.json(version?.template ?? .empty, version: version?.metadata)
            return call.document(json, etag: version?.etag ?? etag(0))
        }
    }

    /// `POST remoteConfig:evaluate` with `{"context":{…},"versionNumber":"7"}`, the version by default the newest: what
    /// became of each condition for that context, why, and what it gets.
    func evaluate(_ call: Call) async throws(GoogleError) -> Answer {
        let request = try JSONBody.parse(call.body)
        guard request.object != nil else { throw .invalidArgument("The request body must be a JSON object.") }
        guard let context = request["context"] else {
            throw .invalidField("context", "context is missing: say who fetches, for example {\"countryCode\":\"FR\"}")
        }
        return try await read(try request.wantedVersion, call) { version async throws(GoogleError) in
            guard let version else {
                throw .notFound("Requested entity was not found: \(scope) has no template yet.")
            }
            let json = try await Self.explanation(version.template, TemplateKind(namespace: scope.namespace), context)
            return call.document(json, etag: version.etag)
        }
    }

    /// Explaining a large template takes long enough to keep it off every event loop.
    @concurrent
    private static func explanation(
        _ template: Template, _ kind: TemplateKind, _ context: JSONValue
    ) async throws(GoogleError) -> JSONValue {
        do {
            return CompiledTemplate(template, kind: kind).explain(try EvaluationContext(json: context)).json
        } catch {
            throw .invalidField("context", error.description)
        }
    }
}
