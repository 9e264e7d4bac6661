import StalecastAccess
import StalecastHTTP
import StalecastWire

extension ControlOperations {
    /// Inbound events.
    static let triggers: [ControlOperation] = [
        operation(
            "trigger", "POST", "/v1/projects/{project}/triggers", tag: "Sources",
            summary: "Makes the sources of a project's scopes look now, because an event says there is something new",
            parameters: [
                .query("namespace", "Only the source of this namespace; all of the project without."),
                .query("token", "A source's own trigger token, for senders that can set only a URL."),
            ], body: APIBody(.schema("TriggerEvent"), isRequired: false),
            answers: [
                .json("At least one source looks", .schema("TriggerAnswer"), status: 202),
                .json("Nothing to look for: told before, known already, or not about us", .schema("TriggerAnswer")),
            ], errors: [400, 404, 415], action: .publish, access: .trigger, .call(Call.trigger))
    ]

    static let triggerSchemas: JSONObject = [
        "TriggerEvent": [
            "description": .string(
                "A CloudEvent (binary, structured or batched), the body of a first-generation Cloud Function, the "
                    + "envelope of a Pub/Sub push, a message of ours, or anything else, which only means: look."),
            "type": "object", "properties": ["versionNumber": ["type": ["string", "integer"]], "namespace": text],
        ],
        "TriggerAnswer": .recordSchema([
            "events": .listSchema(
                .recordSchema(
                    [
                        "form": ["enum": ["cloudevent", "cloud_function", "pubsub", "plain"]], "id": text,
                        "result": ["enum": ["looking", "duplicate", "known", "ignored"]], "scopes": .listSchema(text),
                    ], optional: ["id"]))
        ]),
    ]
}
