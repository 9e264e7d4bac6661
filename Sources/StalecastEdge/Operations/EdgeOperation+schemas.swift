import StalecastHTTP
import StalecastHub
import StalecastWire

extension EdgeOperations {
    static let schemas: JSONObject = [
        "Message": .objectSchema([
            "CONFIG_STATE": ["const": "STALE"], "type": text, "topic": text, "project": text, "namespace": text,
            "latestTemplateVersionNumber": version, "etag": text, "updateType": text, "updateOrigin": text,
            "updateTime": ["type": "string", "format": "date-time"], "sinceTemplateVersionNumber": version,
            "rollbackSource": version, "changedKeys": .listSchema(text), "fetchWindowMs": ["type": "integer"],
            "reportRatio": ["type": "number"],
        ]),
        "Poll": .objectSchema(
            [
                "cursor": text, "messages": .listSchema(.schema("Message")), "reset": .recordSchema(["reason": text]),
                "unknownTopics": .listSchema(text), "round": ["type": "integer"],
            ], required: ["cursor", "messages"]),
        "State": .recordSchema(
            [
                "cursor": text, "unknownTopics": .listSchema(text),
                "state": .listSchema(
                    .recordSchema(
                        [
                            "topic": text, "project": text, "namespace": text, "latestTemplateVersionNumber": version,
                            "etag": text, "updateTime": text,
                        ], optional: ["etag", "updateTime"])),
            ], optional: ["unknownTopics"]),
        "FetchRequest": .objectSchema(
            [
                "appId": ["type": "string", "minLength": 1, "examples": ["1:123456789012:web:ab12"]],
                "appInstanceId": someText, "appInstanceIdToken": someText, "languageCode": text, "countryCode": text,
                "platformVersion": text, "timeZone": text, "appVersion": text, "appBuild": text, "packageName": text,
                "sdkVersion": text, "firstOpenTime": text, "analyticsUserProperties": attributes,
                "customSignals": attributes,
            ], required: ["appId", "appInstanceId", "appInstanceIdToken"]),
        "FetchAnswer": .objectSchema(
            [
                "state": .enumSchema(FetchState.allCases.map(\.rawValue)), "templateVersion": version,
                "entries": ["type": "object", "additionalProperties": text],
                "personalizationMetadata": ["type": "object"], "rolloutMetadata": .listSchema(["type": "object"]),
                "experimentDescriptions": .listSchema(["type": "object"]),
            ], required: ["state", "templateVersion"]),
        "Report": .objectSchema(
            [
                "client": clientID, "project": text, "namespace": text,
                "versionNumber": ["type": ["string", "integer"]],
                "state": .enumSchema(ClientReport.State.allCases.map(\.rawValue)), "app": text, "sdk": text,
                "afterMs": ["type": "integer"], "error": ["type": "string", "maxLength": 120],
            ], required: ["client", "project", "versionNumber", "state"]),
        "TicketRequest": .objectSchema(
            ["topics": ["type": "array", "items": topicName, "minItems": 1], "project": text, "namespace": text],
            required: ["topics"]),
        "Ticket": .recordSchema([
            "ticket": text, "expiresAt": ["type": "string", "format": "date-time"], "expiresInMs": ["type": "integer"],
        ]),
        "Token": .recordSchema(["token": text, "expiresIn": text]),
        "Installation": .recordSchema(["name": text, "fid": text, "refreshToken": text, "authToken": .schema("Token")]),
    ]

    private static let text: JSONValue = ["type": "string"]
    private static let topicName: JSONValue = ["type": "string", "pattern": "^[A-Za-z0-9_.~%-]{1,255}$"]
    private static let someText: JSONValue = ["type": "string", "minLength": 1]
    private static let version: JSONValue = ["type": "string", "pattern": "^[0-9]+$"]
    private static let attributes: JSONValue = [
        "type": "object", "maxProperties": 256, "additionalProperties": ["type": ["string", "number"]],
    ]
}
