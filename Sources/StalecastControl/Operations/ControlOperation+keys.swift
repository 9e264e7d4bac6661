import StalecastAccess
import StalecastHTTP
import StalecastWire

extension ControlOperations {
    static let keys: [ControlOperation] = [
        operation(
            "listKeys", "GET", "/v1/keys", tag: "Keys", summary: "Every key and what it is granted, oldest first",
            answers: [.json("The keys", .schema("Keys"))], errors: [], action: .operate, .call(Call.listKeys)),
        operation(
            "createKey", "POST", "/v1/keys", tag: "Keys",
            summary: "Makes a key; the answer is the only one that shows it", body: APIBody(.schema("KeySettings")),
            answers: [.json("The key", .schema("NewKey"))], errors: [400, 429, 500, 504], action: .operate,
            .call(Call.createKey)),
        operation(
            "rotateKey", "POST", "/v1/keys/{key}:rotate", tag: "Keys",
            summary: "Gives a key another secret, shown in the answer; the one before is taken for a while",
            body: APIBody(.objectSchema(["overlap": ["type": "string", "examples": ["604800s"]]]), isRequired: false),
            answers: [.json("The key", .schema("NewKey"))], errors: [400, 404, 500, 504], action: .operate,
            .call(Call.rotateKey)),
        operation(
            "revokeKey", "POST", "/v1/keys/{key}:revoke", tag: "Keys",
            summary: "Ends a key and the streams it opened, for good", body: APIBody(anyObject, isRequired: false),
            answers: [.json("The key", .schema("Key"))], errors: [400, 404, 500, 504], action: .operate,
            .call(Call.revokeKey)),
    ]

    private static let patterns: JSONValue = [
        "type": "array", "items": ["type": "string", "pattern": "^[A-Za-z0-9._:~%*?-]{1,255}$"], "minItems": 1,
        "maxItems": 64, "examples": [["demo", "shop-*"]],
    ]
    private static let kinds = APIKey.Kind.allCases.map(\.word)

    static let keySchemas: JSONObject = [
        "Grant": .objectSchema([
            "role": .enumSchema(AccessRole.allCases.map(\.rawValue)),
            "actions": .listSchema(.enumSchema(AccessAction.allCases.map(\.rawValue))),
            "projects, namespaces, topics": patterns,
        ]),
        "KeySettings": .objectSchema(
            [
                "name": ["type": "string", "maxLength": 128], "kind": .enumSchema(kinds),
                "grants": [
                    "type": "array", "items": .schema("Grant"), "minItems": 1, "maxItems": .int(Grant.maxPerKey),
                ], "notBefore, expires": moment,
            ], required: ["grants"]),
        "Key": .objectSchema(keyMembers, required: ["id", "kind", "name", "state", "grants"]),
        "NewKey": .objectSchema(newKeyMembers, required: ["id", "kind", "name", "state", "grants", "key"]),
        "Keys": .recordSchema(["keys": .listSchema(.schema("Key"))]),
    ]

    private static let keyMembers: JSONObject = [
        "id, name": text,
        "kind": .enumSchema(kinds),
        "state": .enumSchema(["active", "not_yet_valid", "expired", "revoked"]),
        "grants": .listSchema(.schema("Grant")),
        "created, notBefore, expires, revoked, lastUsed, formerSecretExpires": moment,
        "configured": flag,
    ]

    private static var newKeyMembers: JSONObject {
        var members = keyMembers
        members["key"] = text
        return members
    }
}
