import StalecastAccess
import StalecastHTTP
import StalecastStore
import StalecastWire

extension ControlOperations {
    /// Templates that wait for an approval. They are made with PUT of the template and `propose`.
    static func proposals(under base: String) -> [ControlOperation] {
        let (all, one) = (base + "/remoteConfig/proposals", base + "/remoteConfig/proposals/{proposal}")
        return [
            operation(
                "listProposals", "GET", all, tag: "Proposals",
                summary: "The proposals, newest first, without their templates",
                parameters: [
                    .query(
                        "state", "Only open ones, which can be approved.",
                        schema: .enumSchema([Proposal.State.open.rawValue])),
                    pageSize("At most 300; 100 when absent."),
                    pageToken, pretty,
                ], answers: [.json("The proposals", .schema("Proposals"))], .template(TemplateResource.listProposals)),
            operation(
                "getProposal", "GET", one, tag: "Proposals", summary: "A proposal, with its template while it is open",
                parameters: [pretty], answers: [proposal], .template(TemplateResource.getProposal)),
            operation(
                "approveProposal", "POST", one + ":approve", tag: "Proposals",
                summary: "Publishes a proposal, if the version that it was made over is still current",
                parameters: [pretty], body: APIBody(anyObject, isRequired: false),
                answers: [.json("The proposal", .schema("Proposal"), headers: ["ETag"])],
                errors: [400, 404, 409, 500, 504], action: .publish, .publishing(TemplateResource.approve)),
            operation(
                "rejectProposal", "POST", one + ":reject", tag: "Proposals",
                summary: "Ends a proposal; its author may, too", parameters: [pretty],
                body: APIBody(.objectSchema(["reason": ["type": "string", "maxLength": 1024]]), isRequired: false),
                answers: [proposal], errors: [400, 404, 500], action: .publish, .template(TemplateResource.reject)),
        ]
    }

    private static let proposal = APIAnswer.json("The proposal", .schema("Proposal"))
    private static let names: JSONValue = .listSchema(text)

    static let proposalSchemas: JSONObject = [
        "Proposal": .objectSchema(
            [
                "number, baseVersion, baseEtag, description, origin": text,
                "state": .enumSchema(Proposal.State.allCases.map(\.rawValue)), "stale, urgent": flag,
                "createTime, expireTime, publishTime": moment,
                "author": .objectSchema(["principal, name, email": text], required: ["principal"]),
                "decision": .objectSchema(
                    ["principal, name, email, reason, versionNumber": text, "time": moment],
                    required: ["principal", "time"]), "changedKeys": names, "changedSince": names,
                "template": .schema("Template"),
            ], required: ["number", "state", "stale", "baseVersion", "baseEtag", "createTime", "author", "changedKeys"]),
        "Proposals": page("proposals", of: "Proposal"),
    ]
}
