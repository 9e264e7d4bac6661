package import StalecastWire

/// The template a storm fetches: what was there, and besides it parameters and conditions that make answers of a known
/// size, another one for each context.
package struct FetchTemplate: Sendable {
    /// Different answers, one of them for a context that no condition is true for.
    package let outcomes: Int
    /// About how large an answer gets by the added parameters, in bytes.
    package let answerBytes: Int

    package init(outcomes: Int, answerBytes: Int) {
        self.outcomes = outcomes
        self.answerBytes = answerBytes
    }

    private static let prefix = "stalecast_load"
    /// Bytes of a filling parameter's value, and of the rest of its entry in an answer.
    private static let valueBytes = 100
    private static let entryBytes = valueBytes + 29
    /// Firebase's limit for all of a template.
    static let maxParameters = 2000
    package static let maxConditions = 500
    package static let maxAnswerBytes = (maxParameters - 100) * entryBytes

    /// The template of a round.
    ///
    /// - Parameter original: what was there; its conditions and parameters stay.
    package func document(_ original: JSONValue, round: Int) -> JSONValue {
        var template = original.object ?? [:]
        template["version"] = ["description": .string("load, fetch storm \(round)")]
        template["conditions"] = .array((template["conditions"]?.array ?? []) + conditions)
        var parameters = template["parameters"]?.object ?? [:]
        for (name, parameter) in own(round: round) { parameters[name] = parameter }
        template["parameters"] = .object(parameters)
        return .object(template)
    }

    private var conditions: [JSONValue] {
        (1..<outcomes).map { number in
            [
                "name": .string("\(Self.prefix)_\(number)"),
                "expression": .string("app.customSignal['\(Self.prefix)'].exactlyMatches(['\(number)'])"),
            ]
        }
    }

    /// One parameter in twenty has a value of its own for every context.
    private func own(round: Int) -> [(String, JSONValue)] {
        (0..<max(1, answerBytes / Self.entryBytes)).map { index in
            let name = "\(Self.prefix)_\(1000 + index)"
            var parameter: JSONObject = ["defaultValue": Self.value("\(round) \(index) default")]
            if index % 20 == 0 {
                var values = JSONObject()
                for number in 1..<outcomes {
                    values["\(Self.prefix)_\(number)"] = Self.value("\(round) \(index) \(number)")
                }
                parameter["conditionalValues"] = .object(values)
            }
            return (name, .object(parameter))
        }
    }

    private static func value(_ text: String) -> JSONValue {
        ["value": .string(text + String(repeating: "x", count: max(0, valueBytes - text.utf8.count)))]
    }

    /// Body of an app instance's fetch; the same for all clients of one context.
    package func requestBody(context: Int) -> [UInt8] {
        let body: JSONValue = [
            "app_id": "1:123456789012:web:57a1eca57", "app_instance_id": .string("stalecast-load-\(context)"),
            "app_instance_id_token": "stalecast-load", "sdk_version": "11.0.0", "language_code": "en-GB",
            "custom_signals": [Self.prefix: .string(String(context))],
        ]
        return body.encoded()
    }
}
