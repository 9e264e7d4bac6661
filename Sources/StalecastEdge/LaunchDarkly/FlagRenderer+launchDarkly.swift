import StalecastTemplate
import StalecastWire

extension FlagRenderer.Piece {
    /// - Parameter variation: the value's place among those of its parameter.
    init(
        _ key: String, _ value: JSONValue, _ resolution: FlagResolution, _ variation: Int, _ version: VersionNumber,
        hasReasons: Bool
    ) {
        let number = JSONValue.number(version.description)
        var flag: JSONObject = [
            "value": value, "version": number, "flagVersion": number, "variation": .int(variation),
        ]
        if hasReasons { flag["reason"] = Self.reason(resolution, variation) }
        let style = FlagRenderer.style
        self.init(JSONValue.string(key).text(style) + ":" + JSONValue.object(flag).text(style))
    }

    /// A condition is a rule, by its place among those of the parameter and by name.
    private static func reason(_ resolution: FlagResolution, _ variation: Int) -> JSONValue {
        switch resolution.reason {
        case .matched, .drawn:
            ["kind": "RULE_MATCH", "ruleIndex": .int(variation), "ruleId": .string(resolution.variant)]
        case .fixed, .fallback: ["kind": "FALLTHROUGH"]
        }
    }
}
