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
        let fields = FetchFields(body)
        let appID = try fields.required(.appID)
        let instanceID = try fields.required(.instanceID)
        _ = try fields.required(.token)
        return EvaluationContext(
            appID: appID, appInstanceID: instanceID, countryCode: fields.text(.country),
            languageCode: fields.text(.language), timeZone: fields.text(.timeZone),
            platformVersion: fields.text(.platformVersion), appVersion: fields.text(.appVersion),
            appBuild: fields.text(.appBuild), packageName: fields.text(.packageName),
            sdkVersion: fields.text(.sdkVersion), firstOpenTime: fields.text(.firstOpen).flatMap { Timestamp($0) },
            analyticsUserProperties: try fields.texts(.userProperties),
            customSignals: try fields.texts(.customSignals), now: now)
    }
}

extension FetchRequest {
    /// Who fetches, for the count of those that have a version; nil for an id that is none.
    ///
    /// - Parameter active: the version it says it runs.
    static func client(_ context: EvaluationContext, active: String?) -> ClientIdentity? {
        ClientIdentity(
            context.appInstanceID ?? "", app: context.appID ?? "", sdk: context.sdkVersion ?? "",
            active: active.flatMap { VersionNumber($0) })
    }

    /// Who holds a real-time stream. A web app says which version it runs, the others which one they fetched last.
    static func client(ofStream body: JSONObject, known: VersionNumber) -> ClientIdentity? {
        let fields = FetchFields(body)
        let app = fields.text(.appID) ?? ""
        return ClientIdentity(
            fields.text(.instanceID) ?? "", app: app, sdk: fields.text(.sdkVersion) ?? "",
            active: FetchDialect(appID: app) == .web ? known : nil)
    }
}

/// The members of a body under either of their two names.
struct FetchFields {
    private let body: JSONObject

    struct Name {
        let camel: String
        let snake: String
    }

    init(_ body: JSONObject) { self.body = body }

    private func value(_ name: Name) -> JSONValue? { body[name.snake] ?? body[name.camel] }

    /// Numbers and booleans count as their text. `(null)` is what iOS prints for nothing, also within quotes.
    func text(_ name: Name) -> String? {
        guard let text = value(name).flatMap(Self.text), !text.isEmpty, text != "(null)" else { return nil }
        return text
    }

    func required(_ name: Name) throws(GoogleError) -> String {
        guard let text = text(name) else { throw .invalidArgument("\(name.camel) is missing") }
        return text
    }

    /// A map of texts; members that are null unset nothing here and are left out.
    func texts(_ name: Name) throws(GoogleError) -> [String: String] {
        guard let value = value(name), !value.isNull else { return [:] }
        guard let object = value.object, object.count <= FetchRequest.maxAttributes else {
            throw .invalidArgument("\(name.camel) must be an object of at most \(FetchRequest.maxAttributes) members")
        }
        return object.keys.reduce(into: [:]) { texts, key in
            if let text = object[key].flatMap(Self.text) { texts[key] = text }
        }
    }

    private static func text(_ value: JSONValue) -> String? {
        switch value {
        case .string(let text), .number(let text): text
        case .bool(let flag): flag ? "true" : "false"
        case .null, .array, .object: nil
        }
    }
}

extension FetchFields.Name {
    static let appID = Self(camel: "appId", snake: "app_id")
    static let instanceID = Self(camel: "appInstanceId", snake: "app_instance_id")
    static let token = Self(camel: "appInstanceIdToken", snake: "app_instance_id_token")
    static let language = Self(camel: "languageCode", snake: "language_code")
    static let country = Self(camel: "countryCode", snake: "country_code")
    static let platformVersion = Self(camel: "platformVersion", snake: "platform_version")
    static let timeZone = Self(camel: "timeZone", snake: "time_zone")
    static let appVersion = Self(camel: "appVersion", snake: "app_version")
    static let appBuild = Self(camel: "appBuild", snake: "app_build")
    static let packageName = Self(camel: "packageName", snake: "package_name")
    static let sdkVersion = Self(camel: "sdkVersion", snake: "sdk_version")
    static let firstOpen = Self(camel: "firstOpenTime", snake: "first_open_time")
    static let userProperties = Self(camel: "analyticsUserProperties", snake: "analytics_user_properties")
    static let activeVersion = Self(camel: "activeTemplateVersion", snake: "active_template_version")
    static let customSignals = Self(camel: "customSignals", snake: "custom_signals")
}
