import StalecastHTTP
import StalecastWire

extension ControlOperations {
    static let templateSchemas: JSONObject = [
        "Template": .objectSchema([
            "conditions": .listSchema(.schema("Condition")),
            "parameters": ["type": "object", "additionalProperties": .schema("Parameter")],
            "parameterGroups": [
                "type": "object",
                "additionalProperties": .objectSchema([
                    "description": text,
                    "parameters": ["type": "object", "additionalProperties": .schema("Parameter")],
                ]),
            ], "version": .schema("Version"),
        ]),
        "Condition": .objectSchema(
            [
                "name, tagColor": text,
                "expression": ["type": "string", "examples": ["device.os == 'ios' && device.country in ['FR']"]],
            ], required: ["name"]),
        "Parameter": .objectSchema([
            "defaultValue": .schema("ParameterValue"),
            "conditionalValues": [
                "type": "object", "additionalProperties": .schema("ParameterValue"),
                "description":
                    "By condition. The value for the condition JSON Schema, whose expression is false, is the schema of the others.",
            ], "description": text,
            "valueType": .enumSchema(["PARAMETER_VALUE_TYPE_UNSPECIFIED", "STRING", "BOOLEAN", "NUMBER", "JSON"]),
        ]),
        "ParameterValue": .objectSchema([
            "value": text, "useInAppDefault": flag, "personalizationValue, rolloutValue, experimentValue": anyObject,
        ]),
        "Version": .objectSchema([
            "versionNumber, description, updateOrigin, updateType, rollbackSource": text, "updateTime": moment,
            "updateUser": anyObject,
        ]),
        "Versions": .objectSchema(["versions": .listSchema(.schema("Version")), "nextPageToken": text]),
        "VersionChoice": .objectSchema(["versionNumber": wantedVersion]),
        "EvaluateRequest": .objectSchema(
            ["context": ["type": "object", "examples": [["countryCode": "FR"]]], "versionNumber": wantedVersion],
            required: ["context"]),
        "Explanation": .recordSchema([
            "conditions": .listSchema(
                .recordSchema(["name, reason": text, "matched": flag, "tests": .listSchema(anyObject)])),
            "parameters": .listSchema(.objectSchema(["name, value, condition": text], required: ["name"])),
            "entries": ["type": "object", "additionalProperties": text],
        ]),
    ]

    private static let wantedVersion: JSONValue = [
        "type": ["string", "integer"], "pattern": "^[1-9][0-9]{0,17}$", "minimum": 1, "maximum": .int(Int64.max),
        "examples": ["1"],
    ]
}
