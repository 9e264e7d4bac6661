import StalecastAccess
package import StalecastHTTP
package import StalecastWire

package typealias EdgeOperation = Operation<EdgeHandler>

/// Function that serves an operation of the public listener.
package struct EdgeHandler: Sendable {
    typealias Run = @Sendable (FrontRouter, FrontRequest, PathValues) throws(GoogleError) -> FrontOutcome

    /// The endless answer it has: a client that is refused for want of room hears in it when to come back. nil ends
    /// with one answer, and is refused with one.
    let stream: StreamRequest.Kind?
    let run: Run
}

package enum EdgeOperations {
    package static let table = OperationTable(streams + firebase + flags + daemon)

    static func operation(
        _ id: String, _ method: String, _ path: String, tag: String, summary: String, parameters: [APIParameter] = [],
        body: APIBody? = nil, answers: [APIAnswer], errors: [Int] = [400, 404], stream: StreamRequest.Kind? = nil,
        _ run: @escaping EdgeHandler.Run
    ) -> EdgeOperation {
        let document = APIOperation(
            id, method, PathTemplate(stringLiteral: path), tag: tag, summary: summary, parameters: parameters,
            body: body, answers: answers, errors: errors, needsToken: false)
        return Operation(document, handler: EdgeHandler(stream: stream, run: run))
    }

    private static let daemon: [EdgeOperation] = [
        operation(
            "health", "GET", "/healthz", tag: "Edge", summary: "Whether the process answers",
            answers: [APIAnswer("It does", content: [.init("text/plain")])], errors: []
        ) { _, _, _ in .respond(FrontResponse(type: "text/plain", body: Array("ok\n".utf8))) },
        operation(
            "openapi", "GET", "/openapi.json", tag: "Edge", summary: "This document",
            answers: [.json("OpenAPI 3.1", ["type": "object", "required": ["openapi", "paths"]])], errors: []
        ) { router, _, _ in .respond(FrontResponse(body: router.served.document)) },
        operation(
            "webClient", "GET", "/v1/client/stalecast.js", tag: "Edge",
            summary: "The client for web pages, an ES module that pages of all origins may load",
            answers: [
                APIAnswer("The module", content: [.init("text/javascript")], headers: ["ETag"]),
                APIAnswer("It is the one that the browser has", status: 304, headers: ["ETag"]),
            ], errors: []
        ) { _, request, _ in .respond(WebClient.response(to: request.head)) },
    ]

    /// `/openapi.json`.
    ///
    /// - Parameter version: the daemon's.
    package static func document(version: String) -> JSONValue {
        APIDocument(
            title: "Stalecast Edge", version: version, description: description,
            operations: table.operations.map(\.document),
            schemas: flagSchemas.members.reduce(into: schemas) { $0[$1.key] = $1.value },
            commonErrors: [405, 408, 413, 421, 431, 501, 503]
        ).json
    }

    private static let description = """
        The public listener: what clients of a remote configuration need. Streams and polls tell that a version is out \
        of date, `:fetch` serves the values as Firebase's SDKs ask for them, and `/ofrep` as OpenFeature's do. Bodies \
        may be gzip. GET answers HEAD as well; every path answers OPTIONS.
        """
}

// MARK: Streams and polls

extension EdgeOperations {
    private static let streams: [EdgeOperation] = [
        operation(
            "events", "GET", "/v1/events", tag: "Streams",
            summary: "An endless stream of server-sent events, a message for each version",
            parameters: resume + [ticket], answers: [APIAnswer("The stream", content: [.init("text/event-stream")])],
            errors: errors, stream: .events
        ) { router, request, _ throws(GoogleError) in .subscribe(try router.subscription(.events, request)) },
        operation(
            "poll", "GET", "/v1/poll", tag: "Streams",
            summary: "Answers as soon as there is something newer, or when the time is over",
            parameters: resume + [
                ticket, .query("wait", "How long to wait at most, for example `55s`; 0 to 600 s.", schema: wait),
                .header("If-None-Match", "A cursor as an ETag; a timeout then answers 304."),
                .query(
                    "round",
                    "One answer for many clients, for caches to share: 0 first, then the `round` of the last answer.",
                    schema: ["type": "integer", "minimum": 0, "maximum": .int(1 << 53)]),
            ],
            answers: [
                .json("What is newer, or nothing", .schema("Poll"), headers: ["ETag"]),
                APIAnswer("Nothing is newer", status: 304, headers: ["ETag"]),
            ], errors: errors
        ) { router, request, _ throws(GoogleError) in .subscribe(try router.subscription(.poll, request)) },
        operation(
            "state", "GET", "/v1/state", tag: "Streams", summary: "What is current, now",
            parameters: [topic, project, namespace, key],
            answers: [.json("The state", .schema("State"), headers: ["ETag"])], errors: errors
        ) { router, request, _ throws(GoogleError) in
            .respond(try router.state(of: try router.subscription(.state, request)))
        },
        operation(
            "createTicket", "POST", "/v1/tickets", tag: "Streams",
            summary: "A ticket that opens one stream or poll within a minute, for EventSource, which sends no headers",
            parameters: [key], body: APIBody(.schema("TicketRequest")),
            answers: [.json("The ticket, to be used as `ticket` in the query", .schema("Ticket"))],
            errors: errors + [413]
        ) { router, request, _ throws(GoogleError) in .respond(try router.ticket(request)) },
        operation(
            "openSession", "POST", "/v1/session", tag: "Streams",
            summary: "Puts the credential into a cookie, for streams, polls and state of pages of the same site",
            parameters: [key], answers: [APIAnswer("The cookie is set", status: 204, headers: ["Set-Cookie"])],
            errors: errors
        ) { router, request, _ throws(GoogleError) in .respond(try router.session(request, isEnding: false)) },
        operation(
            "endSession", "DELETE", "/v1/session", tag: "Streams", summary: "Takes the cookie away",
            answers: [APIAnswer("It is gone", status: 204, headers: ["Set-Cookie"])], errors: [403]
        ) { router, request, _ throws(GoogleError) in .respond(try router.session(request, isEnding: true)) },
        operation(
            "report", "POST", "/v1/report", tag: "Streams",
            summary: "Reports the version that a client has fetched or runs, or a failure; reports are counted",
            parameters: [key], body: APIBody(.schema("Report")), answers: [APIAnswer("Taken", status: 204)],
            errors: errors + [413, 429]
        ) { router, request, _ throws(GoogleError) in try router.report(request) },
    ]

    private static let topic = APIParameter.query(
        "topic",
        "Names of topics: the parameter several times, or names separated by commas. Those that are unknown are named "
            + "in the answer, and none but unknown ones is 404.",
        schema: [
            "type": "array", "minItems": 1,
            "items": ["type": "string", "pattern": "^[A-Za-z0-9_.~%-]{1,255}(,[A-Za-z0-9_.~%-]{1,255})*$"],
        ], isRequired: true)
    private static let project = APIParameter.query(
        "project", "The project's id or number: only its messages. Needed where there are several projects.")
    private static let namespace = APIParameter.query("namespace", "Only messages of this namespace.")
    private static let ticket = APIParameter.query(
        "ticket", "Of `POST /v1/tickets`, in place of any other credential; good once.",
        schema: ["type": "string", "pattern": "^stt_[0-9a-f]{32}$"])
    private static let wait: JSONValue = ["type": "string", "pattern": "^[0-9]{1,3}(s|ms)?$"]
    private static let resume: [APIParameter] = [
        topic, project, namespace, key,
        .query("cursor", "Where the client stands: the last `id` or `cursor` it received."),
        .query("have", "The version the client holds, when it has no cursor.", schema: version(from: 0)),
        .header("Last-Event-ID", "As `cursor`; wins over it."),
        .query("client", "The client's id, so that it is counted.", schema: clientID),
        .header("X-Stalecast-Client", "As `client`; wins over it.", schema: clientID),
        .query("app", "What the client is."), .query("sdk", "What it speaks with."),
        .query("active", "The version it runs.", schema: version(from: 0)),
    ]
    private static func version(from least: Int) -> JSONValue {
        ["type": "integer", "minimum": .int(least), "maximum": .int(VersionNumber.max.rawValue)]
    }
    static let clientID: JSONValue = ["type": "string", "pattern": "^[A-Za-z0-9._~:@-]{1,128}$"]
}

// MARK: Firebase

extension EdgeOperations {
    private static let firebase: [EdgeOperation] = [
        operation(
            "fetch", "POST", "/v1/projects/{project}/namespaces/{namespace}:fetch", tag: "Firebase",
            summary: "The values for one app instance",
            parameters: [
                key, .header("If-None-Match", "The ETag of what the instance holds."),
                .header(
                    "X-Stalecast-Cursor",
                    "The last `id` or `cursor` the client received, from whichever node of a cluster: the answer is not "
                        + "older; 503 when this node does not get there within two seconds."),
                .query("cursor", "As `X-Stalecast-Cursor`, which wins over it."),
            ], body: APIBody(.schema("FetchRequest")),
            answers: [
                .json(
                    "The values, or that nothing changed", .schema("FetchAnswer"), headers: ["ETag"],
                    mayHave: unverified)
            ], errors: errors
        ) { router, request, names throws(GoogleError) in
            let scope = try router.servedScope(names["project"], names["namespace"], .fetch, request)
            return try router.fetch(scope, request)
        },
        operation(
            "config", "GET", "/v1/projects/{project}/namespaces/{namespace}/config", tag: "Firebase",
            summary: "The default values of one version, which a cache may keep for ever",
            parameters: [
                key,
                .query("version", "The version that a message named.", schema: version(from: 1), isRequired: true),
            ], answers: [.json("The values", .schema("FetchAnswer"))], errors: errors
        ) { router, request, names throws(GoogleError) in
            .respond(try router.config(names["project"], names["namespace"], request))
        },
        operation(
            "streamInvalidations", "POST", "/v1/projects/{project}/namespaces/{namespace}:streamFetchInvalidations",
            tag: "Firebase", summary: "An endless stream of JSON objects, one for each version", parameters: [key],
            body: APIBody(.objectSchema(["lastKnownVersionNumber": ["type": ["string", "integer"]]])),
            answers: [APIAnswer("The stream", content: [.init("application/json")])], errors: errors,
            stream: .invalidations
        ) { router, request, names throws(GoogleError) in
            try router.invalidations(names["project"], names["namespace"], request)
        },
        operation(
            "createInstallation", "POST", "/v1/projects/{project}/installations", tag: "Firebase",
            summary: "Registers an app instance; nothing is kept", parameters: [key],
            body: APIBody(.objectSchema(["fid": ["type": "string"], "appId": ["type": "string"]])),
            answers: [.json("The installation", .schema("Installation"))], errors: errors
        ) { router, request, names throws(GoogleError) in
            .respond(try router.createInstallation(names["project"], request))
        },
        operation(
            "generateToken", "POST", "/v1/projects/{project}/installations/{fid}/authTokens:generate", tag: "Firebase",
            summary: "A new token for an installation", parameters: [fid, refresh, key],
            answers: [.json("The token", .schema("Token"))], errors: errors
        ) { router, request, names throws(GoogleError) in
            try router.checkInstallation(names["project"], names["fid"], request)
            return .respond(FrontResponse(body: Installations.token().encoded(.pretty) + [0x0A], installation: .token))
        },
        operation(
            "deleteInstallation", "DELETE", "/v1/projects/{project}/installations/{fid}", tag: "Firebase",
            summary: "Forgets an installation", parameters: [fid, refresh, key],
            answers: [.json("Done", ["type": "object"])], errors: errors
        ) { router, request, names throws(GoogleError) in
            try router.checkInstallation(names["project"], names["fid"], request)
            return .respond(FrontResponse(body: Array("{}\n".utf8), installation: .deleted))
        },
    ]

    static let unverified = [
        "X-Stalecast-Unverified":
            "Seconds for which a node of a cluster has not known whether its version is the newest."
    ]

    private static let errors = [400, 401, 403, 404, 429]
    static let key = APIParameter.header(
        "X-Goog-Api-Key",
        "An API key, where the daemon asks for one; or `Authorization: Bearer`, `X-API-Key`, or `key` in the query.")
    private static let fid = APIParameter(
        .path, "fid", "The installation's id.", schema: ["type": "string", "pattern": "^[cdef][A-Za-z0-9_-]{21}$"])
    private static let refresh = APIParameter.header(
        "Authorization", "`FIS_v2` and the installation's refresh token.", isRequired: true)
}
