import StalecastAccess
import StalecastHTTP

/// Protocols of other vendors that Edge speaks only where it is told to. Raw values are in the configuration.
package enum EdgeDialect: String, Sendable, CaseIterable {
    /// Operations that LaunchDarkly's client-side SDKs ask for.
    case launchDarkly = "launchdarkly"
}

extension EdgeOperations {
    /// LaunchDarkly's client-side dialect, of its Relay Proxy's `docs/endpoints.md`. Not in `/openapi.json`, which has no
    /// word for REPORT.
    static let launchDarkly = OperationTable(evaluations + pings + goals + sinks)

    /// SDKs spell the same in four ways.
    private static let evaluations = ["/sdk/evalx/{environment}", "/msdk/evalx"].flatMap { base in
        ["contexts", "context", "users", "user"].flatMap { name in
            [
                row("GET", "\(base)/\(name)/{context}") { router, request, names throws(GoogleError) in
                    try router.evaluate(LaunchDarklyContext(base64: names["context"]), request)
                },
                row("REPORT", "\(base)/\(name)") { router, request, _ throws(GoogleError) in
                    try router.evaluate(router.context(request), request)
                },
            ]
        }
    }

    private static let pings =
        ["/eval/{environment}", "/meval"].flatMap { base in
            [
                row("GET", "\(base)/{context}") { router, request, names throws(GoogleError) in
                    try router.pings(LaunchDarklyContext(base64: names["context"]), request)
                },
                row("REPORT", base) { router, request, _ throws(GoogleError) in
                    try router.pings(router.context(request), request)
                },
            ]
        }
        + ["/ping/{environment}", "/mping"].map { path in
            row("GET", path) { router, request, _ throws(GoogleError) in try router.pings(nil, request) }
        }

    private static let goals = [
        row("GET", "/sdk/goals/{environment}") { router, request, _ throws(GoogleError) in
            _ = try router.environment(.fetch, request)
            return .respond(FrontResponse(body: Array("[]\n".utf8)))
        }
    ]

    private static let sinks = [
        "/events/bulk/{environment}", "/events/diagnostic/{environment}", "/mobile", "/mobile/events",
        "/mobile/events/bulk", "/mobile/events/diagnostic",
    ].map { path in
        row("POST", path) { router, request, _ throws(GoogleError) in
            _ = try router.environment(.fetch, request)
            return .respond(router.droppedEvents)
        }
    }

    private static func row(
        _ method: String, _ path: String,
        _ run: @escaping @Sendable (FrontRouter, FrontRequest, PathValues) throws(GoogleError) -> FrontOutcome
    ) -> EdgeOperation {
        operation("\(method) \(path)", method, path, tag: "LaunchDarkly", summary: "", answers: []) {
            router, request, names in
            do throws(GoogleError) { return try run(router, request, names) } catch {
                return .respond(FrontResponse(launchDarkly: error))
            }
        }
    }
}
