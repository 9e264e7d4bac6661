import StalecastHTTP
import StalecastWire

extension EdgeOperations {
    static let schemas: JSONObject = [
        "Message": .objectSchema(
            [
                "CONFIG_STATE": ["const": "STALE"], "type": text, "topic": text, "project": text,
                "namespace": text, "latestTemplateVersionNumber": version, "etag": text, "updateType": text,
                "updateOrigin": text, "updateTime": ["type": "string", "format": "date-time"],
                "sinceTemplateVersionNumber": version, "rollbackSource": version,
                "changedKeys": .listSchema(text), "fetchWindowMs": ["type": "integer"],
            ]),
        "Poll": .objectSchema(
            [
                "cursor": text, "messages": .listSchema(.schema("Message")),
                "reset": .objectSchema(["reason": text], required: ["reason"]),
                "unknownTopics": .listSchema(text),
            ], required: ["cursor", "messages"]),
        "State": .objectSchema(
            [
                "cursor": text, "unknownTopics": .listSchema(text),
                "state": .listSchema(
                    .objectSchema(
                        [
                            "topic": text, "project": text, "namespace": text,
                            "latestTemplateVersionNumber": version, "etag": text, "updateTime": text,
                        ], required: ["topic", "project", "namespace", "latestTemplateVersionNumber"])),
            ], required: ["cursor", "state"]),
        "FetchRequest": .objectSchema(
            [
                "appId": ["type": "string", "examples": ["1:123456789012:web:ab12"]], "appInstanceId": text,
                "appInstanceIdToken": text, "languageCode": text, "countryCode": text, "platformVersion": text,
                "timeZone": text, "appVersion": text, "appBuild": text, "packageName": text, "sdkVersion": text,
                "firstOpenTime": text, "analyticsUserProperties": attributes, "customSignals": attributes,
            ], required: ["appId", "appInstanceId", "appInstanceIdToken"]),
        "FetchAnswer": .objectSchema(
            [
                "state": .enumSchema(FetchState.allCases.map(\.rawValue)), "templateVersion": version,
                "entries": ["type": "object", "additionalProperties": text],
                "personalizationMetadata": ["type": "object"], "rolloutMetadata": .listSchema(["type": "object"]),
                "experimentDescriptions": .listSchema(["type": "object"]),
            ], required: ["state", "templateVersion"]),
        "Token": .objectSchema(["token": text, "expiresIn": text], required: ["token", "expiresIn"]),
        "Installation": .objectSchema(
            ["name": text, "fid": text, "refreshToken": text, "authToken": .schema("Token")],
            required: ["name", "fid", "refreshToken", "authToken"]),
    ]

    private static let text: JSONValue = ["type": "string"]
    private static let version: JSONValue = ["type": "string", "pattern": "^[0-9]+$"]
    private static let attributes: JSONValue = [
        "type": "object", "maxProperties": 256, "additionalProperties": ["type": ["string", "number"]],
    ]
}
