import NIOHTTP1
import StalecastAccess
package import StalecastHTTP
import StalecastHub
import StalecastWire

extension FrontRouter {
    /// All flags for a context, or 304 where `If-None-Match` names what would be sent.
    func evaluate(_ context: LaunchDarklyContext, _ request: FrontRequest) throws(GoogleError) -> FrontOutcome {
        let hasReasons = QueryParameters(request.query)["withReasons"] == "true"
        return .fetched(
            try environment(.fetch, request).launchDarkly(
                context, hasReasons ? .launchDarklyReasons : .launchDarkly,
                ifNoneMatch: request.head.headers.first(name: "if-none-match"), address: request.address))
    }

    /// A stream of pings: one at once, because a version may have come since the SDK's first request, and one for each
    /// version. The SDK then asks for all flags.
    ///
    /// - Parameter context: nil where the SDK does not say it; in a release it then is a client without an id.
    func pings(_ context: LaunchDarklyContext?, _ request: FrontRequest) throws(GoogleError) -> FrontOutcome {
        try stream(.pings, of: environment(.watch, request).scope, context?.client, have: 0, request)
    }

    func context(_ request: FrontRequest) throws(GoogleError) -> LaunchDarklyContext {
        try LaunchDarklyContext(RequestBody.inflated(request.body, cap: settings.maxBodyBytes))
    }

    /// Answer to analytics events. SDKs read its date.
    var droppedEvents: FrontResponse {
        var response = FrontResponse(status: 202, isOfDroppedEvents: true)
        if !settings.allowedOrigins.isEmpty { response.fields = "Access-Control-Expose-Headers: Date\r\n" }
        return response
    }

    /// The scope of the request's environment, for a caller that may do so.
    func environment(_ action: AccessAction, _ request: FrontRequest) throws(GoogleError) -> FetchScope {
        guard let path = request.launchDarkly else { throw .unknownProject }
        do throws(GoogleError) {
            return try servedScope(
                path.project ?? served.onlyProject?.id.description ?? "", Namespace.firebase.description, action,
                request)
        } catch {
            // A mobile SDK gives up after an invalid key. After an unknown path it would try again for ever.
            throw error.code == 404 && path.isMobile ? GoogleError(401, error.message) : error
        }
    }

    static let launchDarklyHeaders = """
        , x-launchdarkly-user-agent, x-launchdarkly-wrapper, x-launchdarkly-tags, x-launchdarkly-event-schema, \
        x-launchdarkly-payload-id
        """
}

extension FrontResponse {
    /// An error as LaunchDarkly's services spell it.
    init(launchDarkly error: GoogleError) {
        let body: JSONValue = ["message": .string(error.message)]
        self.init(status: error.code, fields: error.fields, body: body.encoded() + [0x0A])
    }
}

extension FetchScope {
    /// - Parameter address: stands in a release for a client whose key is no id; nil is a canary.
    package func launchDarkly(
        _ context: LaunchDarklyContext, _ form: FlagForm, ifNoneMatch: String? = nil, address: UInt64? = nil
    ) throws(GoogleError) -> FetchAnswer {
        if let elsewhere { throw GoogleError(400, elsewhere) }
        let version = version(of: context.key, address)
        let outcome = version?.outcome(of: context.fields, nil)
        return answer(rendering(in: form, version, outcome), unless: ifNoneMatch, .launchDarkly, context.client)
    }
}
