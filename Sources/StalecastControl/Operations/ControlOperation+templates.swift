import StalecastTemplate
import StalecastAccess
import StalecastHTTP
import StalecastWire

extension ControlOperations {
    /// A scope's template: every operation under the project, which means namespace `firebase`, and again under each
    /// namespace.
    static let templates: [ControlOperation] =
        templates(under: "/v1/projects/{project}", suffix: "")
        + templates(under: "/v1/projects/{project}/namespaces/{namespace}", suffix: "InNamespace")
        + [
            operation(
                "getServerTemplate", "GET", "/v1/projects/{project}/namespaces/firebase-server/serverRemoteConfig",
                tag: "Templates", summary: "The server template with its conditions as trees, as Admin SDKs load it",
                parameters: [pretty],
                answers: [.json("The template", anyObject, headers: ["ETag"], mayHave: unverified)],
                about: .template(namespace: "firebase-server"), .template(TemplateResource.serverTemplate))
        ]

    private static func templates(under base: String, suffix: String) -> [ControlOperation] {
        ([get(base), publish(base), listVersions(base), rollback(base), downloadDefaults(base), evaluate(base)]
            + proposals(under: base) + releases(under: base) + propagation(under: base)).map { operation in
                var document = operation.document
                document.id += suffix
                return ControlOperation(document, handler: operation.handler)
            }
    }

    static let template = ControlHandler.About.template(namespace: nil)

    // MARK: Operations

    private static func get(_ base: String) -> ControlOperation {
        operation(
            "getTemplate", "GET", base + "/remoteConfig", tag: "Templates",
            summary: "The current template, or that of a version", parameters: [version, pretty],
            answers: [.json("The template", .schema("Template"), headers: ["ETag"], mayHave: unverified)],
            .template(TemplateResource.get))
    }

    private static func publish(_ base: String) -> ControlOperation {
        operation(
            "publishTemplate", "PUT", base + "/remoteConfig", tag: "Templates",
            summary: "Publishes a template as the next version, if the current version is that of `If-Match`",
            parameters: [
                .header(
                    "If-Match", "The ETag the template was read with, or `*` for any.", schema: etag, isRequired: true),
                .header(
                    "X-Stalecast-Urgent", "Clients are asked to fetch at once, whatever the herd window.", schema: flag),
                idempotencyKey, user, .flag("validateOnly", "Check, do not publish."),
                .flag("propose", "Keep it for another person to approve; the answer is the proposal."),
                .query(
                    "publishTime",
                    "Keep it as a proposal that publishes itself then, over the version that is current now; within 30 days.",
                    schema: moment), pretty,
            ] + releaseParameters, body: APIBody(.schema("Template")),
            answers: [
                .json(
                    "The template, or the proposal", ["anyOf": [.schema("Template"), .schema("Proposal")]],
                    headers: ["ETag"])
            ], errors: [400, 404, 409, 413, 422, 429, 500, 504], action: .publish, takesTemplate: true,
            .publishing(TemplateResource.publish))
    }

    private static func listVersions(_ base: String) -> ControlOperation {
        operation(
            "listVersions", "GET", base + "/remoteConfig:listVersions", tag: "Templates",
            summary: "Metadata of the versions, newest first",
            parameters: [
                pageSize("At most 300; 10 when absent.", from: 0),
                pageToken,
                .query("endVersionNumber", "The newest to list.", schema: versionNumber),
                .query("startTime", "The earliest, inclusive.", schema: moment),
                .query("endTime", "The latest, exclusive.", schema: moment), pretty,
            ], answers: [.json("The versions", .schema("Versions"), mayHave: unverified)],
            .template(TemplateResource.listVersions))
    }

    private static func rollback(_ base: String) -> ControlOperation {
        operation(
            "rollbackTemplate", "POST", base + "/remoteConfig:rollback", tag: "Templates",
            summary: "Publishes an older version's content as the next version",
            parameters: [
                .header(
                    "If-Match",
                    "The ETag of the version to be replaced; without it, or with `*`, whichever is current.",
                    schema: etag), idempotencyKey, version, user, pretty,
            ], body: APIBody(.schema("VersionChoice"), isRequired: false), answers: [templateAnswer],
            errors: [400, 404, 422, 500, 504], action: .publish, .publishing(TemplateResource.rollback))
    }

    private static func downloadDefaults(_ base: String) -> ControlOperation {
        let types = Set(DefaultsFormat.allCases.map { $0.contentType.prefix { $0 != ";" } }).sorted()
        return operation(
            "downloadDefaults", "GET", base + "/remoteConfig:downloadDefaults", tag: "Templates",
            summary: "The default values as a file that apps are built with",
            parameters: [
                .query(
                    "format", "The file's format.", schema: .enumSchema(DefaultsFormat.allCases.map(\.rawValue)),
                    isRequired: true), version,
            ],
            answers: [
                APIAnswer(
                    "The file", content: types.map { APIAnswer.Content(String($0)) },
                    headers: ["ETag", "Content-Disposition"], mayHave: unverified)
            ], .template(TemplateResource.downloadDefaults))
    }

    private static func evaluate(_ base: String) -> ControlOperation {
        operation(
            "evaluateTemplate", "POST", base + "/remoteConfig:evaluate", tag: "Templates",
            summary: "Which conditions are true for a context, why, and what it gets", parameters: [pretty],
            body: APIBody(.schema("EvaluateRequest")),
            answers: [.json("The explanation", .schema("Explanation"), headers: ["ETag"], mayHave: unverified)],
            action: .read, .template(TemplateResource.evaluate))
    }

    // MARK: Parts

    private static let templateAnswer = APIAnswer.json("The template", .schema("Template"), headers: ["ETag"])
    static let etag: JSONValue = ["type": "string", "minLength": 1]
    private static let unverified = [
        "X-Stalecast-Unverified":
            "Seconds for which a node of a cluster has not known whether its newest version is the newest."
    ]
    private static let user = APIParameter.header(
        "X-Stalecast-User", "Who does this, a name or an address: kept as the version's `updateUser`.")
    private static let idempotencyKey = APIParameter.header(
        "Idempotency-Key",
        "In a cluster the same request with the same key lands once, whichever nodes it is sent to, and has the answer of "
            + "the first time; another request with it is 422. 1 to 255 visible characters, in quotation marks or not; of "
            + "this template only, as long as its version is stored. One daemon by itself does not look at it.",
        schema: ["type": "string", "pattern": "^(\"[!#-~]{1,253}\"|[!#-~]{1,255})$"])
    static let pretty = APIParameter.flag("prettyPrint", "Two spaces a level; one line when absent.")
    static let version = APIParameter.query(
        "versionNumber", "A stored version; the newest when absent.", schema: versionNumber)
    private static let versionNumber: JSONValue = [
        "type": "integer", "format": "int64", "minimum": 1, "maximum": .int(Int64.max),
    ]
}
