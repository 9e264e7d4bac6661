import NIOHTTP1
import StalecastAccess
import StalecastHTTP
import StalecastWire

extension FrontRouter {
    /// - Parameter names: those of the path. Without a project the only one is meant, and its client template; without
    ///   a key all flags.
    func flags(_ names: PathValues, _ request: FrontRequest) -> FrontOutcome {
        let key = names["key"].isEmpty ? nil : names["key"]
        do throws(FlagRefusal) {
            let scope = try flagScope(names["project"], names["namespace"], request)
            let wanted = FlagRequest(
                key: key, ifNoneMatch: request.head.headers.first(name: "if-none-match"), query: request.query
            ) { [settings, board] client in
                settings.eventStreams(of: scope.scope, on: board, for: request.credentials, as: client)
            }
            return .fetched(
                try scope.flags(
                    request.body, wanted, maxBodyBytes: settings.maxBodyBytes,
                    address: request.isCanary ? nil : request.address))
        } catch {
            let body = JSONValue.object(error.json(of: key)).encoded() + [0x0A]
            return .respond(FrontResponse(status: error.status, fields: error.fields, body: body))
        }
    }

    private func flagScope(
        _ project: String, _ namespace: String, _ request: FrontRequest
    ) throws(FlagRefusal) -> FetchScope {
        let isNamed = !project.isEmpty
        do throws(GoogleError) {
            return try servedScope(
                isNamed ? project : served.onlyProject?.id.description ?? "",
                isNamed ? namespace : Namespace.firebase.description, .fetch, request)
        } catch {
            guard error.code == 404, !isNamed, served.onlyProject == nil else { throw FlagRefusal(error) }
            throw FlagRefusal(
                .general,
                "this daemon has several projects; the provider's base URL must end in /v1/projects/{project}"
                    + "/namespaces/{namespace}", status: 404)
        }
    }
}
