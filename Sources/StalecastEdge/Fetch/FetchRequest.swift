package import StalecastHTTP
import StalecastHub
package import StalecastTemplate
package import StalecastWire

/// Reads what an app instance says of itself in the body of `:fetch`.
package enum FetchRequest {
    /// Signals and properties taken from one request; Firebase allows 100 signals and 25 properties.
    static let maxAttributes = 256

    /// Names may be camelCase or snake_case, others are passed over. A text that is absent, null or empty, and a moment
    /// that is none, is not said.
    ///
    /// - Throws: 400 when the app id, the instance id or the token is missing; nothing else is needed.
    package static func context(_ body: JSONObject, at now: Timestamp) throws(GoogleError) -> EvaluationContext {
        try context(FetchFields(body), at: now)
    }

    /// Reads a body that was scanned in place, as ``context(_:at:)`` does.
    package static func context(_ scan: FetchScan, at now: Timestamp) throws(GoogleError) -> EvaluationContext {
        try context(members: scan, at: now)
    }

    static func context(_ fields: FetchFields, at now: Timestamp) throws(GoogleError) -> EvaluationContext {
        try context(members: fields, at: now)
    }

    private static func context(
        members: some FetchMembers, at now: Timestamp
    ) throws(GoogleError) -> EvaluationContext {
        let appID = try members.required(.appID)
        let instanceID = try members.required(.instanceID)
        guard members.has(.token) else { throw .missing(.token) }
        return EvaluationContext(
            appID: appID, appInstanceID: instanceID, countryCode: members.text(.country),
            languageCode: members.text(.language), timeZone: members.text(.timeZone),
            platformVersion: members.text(.platformVersion), appVersion: members.text(.appVersion),
            appBuild: members.text(.appBuild), packageName: members.text(.packageName),
            sdkVersion: members.text(.sdkVersion), firstOpenTime: members.text(.firstOpen).flatMap { Timestamp($0) },
            analyticsUserProperties: try members.texts(.userProperties),
            customSignals: try members.texts(.customSignals), now: now)
    }
}

extension FetchRequest {
    /// Names the client that fetches, for the count of those that have a version; nil for an id that is none. The version
    /// is the one that the client says it runs.
    static func client(_ members: some FetchMembers, appID: String) -> ClientIdentity? {
        ClientIdentity(
            members.text(.instanceID) ?? "", app: appID, sdk: members.text(.sdkVersion) ?? "",
            active: members.text(.activeVersion).flatMap { VersionNumber($0) })
    }

    /// Client that holds a real-time stream. A web app says which version it runs, the others which one they fetched
    /// last.
    static func client(ofStream body: JSONObject, known: VersionNumber) -> ClientIdentity? {
        let fields = FetchFields(body)
        let app = fields.text(.appID) ?? ""
        return ClientIdentity(
            fields.text(.instanceID) ?? "", app: app, sdk: fields.text(.sdkVersion) ?? "",
            active: FetchDialect(appID: app) == .web ? known : nil)
    }
}

/// The members of a body under either of their two names.
struct FetchFields: FetchMembers {
    private let body: JSONObject

    init(_ body: JSONObject) { self.body = body }

    private func value(_ field: FetchField) -> JSONValue? {
        body[field.names.snake.description] ?? body[field.names.camel.description]
    }

    func text(_ field: FetchField) -> String? {
        guard let text = value(field).flatMap(Self.text), !text.isEmpty, text != FetchField.printedNil.description
        else { return nil }
        return text
    }

    func has(_ field: FetchField) -> Bool { text(field) != nil }

    func texts(_ field: FetchField) throws(GoogleError) -> [String: String] {
        guard let value = value(field), !value.isNull else { return [:] }
        guard let object = value.object, object.count <= FetchRequest.maxAttributes else {
            throw .invalidArgument(
                "\(field.names.camel) must be an object of at most \(FetchRequest.maxAttributes) members")
        }
        return object.keys.reduce(into: [:]) { texts, key in
            if let text = object[key].flatMap(Self.text) { texts[key] = text }
        }
    }

    static func text(_ value: JSONValue) -> String? {
        switch value {
        case .string(let text), .number(let text): text
        case .bool(let flag): flag ? "true" : "false"
        case .null, .array, .object: nil
        }
    }
}
