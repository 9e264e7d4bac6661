package import StalecastWire

/// Reason why a context could not be read: which member, and what it should be.
package struct EvaluationContextError: Error, Sendable, Hashable, CustomStringConvertible {
    /// Name as it was spelled, for example `custom_signals.city`; empty for the document as a whole.
    package let field: String
    /// A sentence without its full stop that names the field.
    package let description: String

    fileprivate init(_ field: String, expects what: String, not value: JSONValue) {
        self.field = field.shown
        description = "\(field.isEmpty ? "a context" : field.shown) must be \(what), not \(value.kind)"
    }

    fileprivate init(_ field: String, _ problem: String) {
        self.field = field.shown
        description = "\(field.shown) \(problem)"
    }
}

extension EvaluationContext {
    /// Reads a context as the body of a fetch spells it, members in camelCase or snake_case. Absent, null and, for
    /// single values, empty texts mean "not said"; numbers and booleans count as their text. `now` (RFC 3339) is the
    /// time of the fetch, by default the wall clock's. The token of a fetch body is passed over.
    ///
    /// - Throws: for a member of the wrong type, one that is no moment, one given in both spellings, and an unknown
    ///   one, so that a misspelled name does not silently make conditions false.
    package init(json: JSONValue) throws(EvaluationContextError) {
        guard let object = json.object else { throw EvaluationContextError("", expects: "an object", not: json) }
        self.init()
        var seen: Set<String> = []
        for (spelled, value) in object.members {
            let name = spelled.camelCased
            guard seen.insert(name).inserted else {
                throw EvaluationContextError(spelled, "is there in two spellings")
            }
            if !value.isNull { try set(name, spelled, value) }
        }
    }

    private mutating func set(
        _ name: String, _ spelled: String, _ value: JSONValue
    ) throws(EvaluationContextError) {
        if let path = Self.texts[name] {
            self[keyPath: path] = try Self.text(value, spelled).nonEmpty
            return
        }
        if Self.unreadTexts.contains(name) {
            // Its type is checked all the same: a wrong one is an error of the client.
            _ = try Self.text(value, spelled)
            return
        }
        switch name {
        case "firstOpenTime": firstOpenTime = try Self.moment(value, spelled)
        case "now": now = try Self.moment(value, spelled) ?? now
        case "analyticsUserProperties": analyticsUserProperties = try Self.map(value, spelled)
        case "customSignals": customSignals = try Self.map(value, spelled)
        case "audiences": audiences = try Self.list(value, spelled)
        case "importedSegments": importedSegments = try Self.list(value, spelled)
        case "appInstanceIdToken": break
        default: throw EvaluationContextError(spelled, "is not a member of a context; \(Self.hint(name))")
        }
    }

    private static func hint(_ name: String) -> String {
        let others = [
            "firstOpenTime", "now", "analyticsUserProperties", "customSignals", "audiences", "importedSegments",
        ]
        let known = (texts.keys + unreadTexts + others).sorted()
        return nearestName(to: name, of: known).map { "did you mean \($0)?" }
            ?? "known: \(known.joined(separator: ", "))"
    }

    private static var texts: [String: WritableKeyPath<Self, String?>] {
        [
            "appId": \.appID, "appInstanceId": \.appInstanceID, "countryCode": \.countryCode,
            "languageCode": \.languageCode, "timeZone": \.timeZone, "appVersion": \.appVersion, "appBuild": \.appBuild,
            "operatingSystemAndVersion": \.web.operatingSystemAndVersion,
            "browserAndVersion": \.web.browserAndVersion,
        ]
    }

    /// Members that SDKs send and no condition reads.
    private static let unreadTexts = ["packageName", "platformVersion", "sdkVersion"]

    private static func text(_ value: JSONValue, _ field: String) throws(EvaluationContextError) -> String {
        switch value {
        case .string(let text), .number(let text): return text
        case .bool(let flag): return flag ? "true" : "false"
        case .null, .array, .object: throw EvaluationContextError(field, expects: "a text", not: value)
        }
    }

    private static func moment(_ value: JSONValue, _ field: String) throws(EvaluationContextError) -> Timestamp? {
        let text = try text(value, field)
        if text.isEmpty { return nil }
        guard let moment = Timestamp(text) else {
            throw EvaluationContextError(field, "must be a moment such as 2026-03-01T09:00:00Z, not '\(text.shown)'")
        }
        return moment
    }

    private static func map(_ value: JSONValue, _ field: String) throws(EvaluationContextError) -> [String: String] {
        guard let object = value.object else {
            throw EvaluationContextError(field, expects: "an object of texts", not: value)
        }
        var map: [String: String] = [:]
        for (name, value) in object.members where !value.isNull { map[name] = try text(value, "\(field).\(name)") }
        return map
    }

    private static func list(_ value: JSONValue, _ field: String) throws(EvaluationContextError) -> [String] {
        guard let elements = value.array else {
            throw EvaluationContextError(field, expects: "a list of texts", not: value)
        }
        return try elements.enumerated().map { (index, element) throws(EvaluationContextError) in
            try text(element, "\(field)[\(index)]")
        }
    }
}

extension String {
    fileprivate var nonEmpty: String? { isEmpty ? nil : self }
}
