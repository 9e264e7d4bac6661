import Glibc
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

    package static func context(
        _ members: some FetchMembers, at now: Timestamp
    ) throws(GoogleError) -> EvaluationContext {
        let appID = try members.required(.appID)
        let instanceID = try members.required(.instanceID)
        guard members.has(.token) else { throw .missing(.token) }
        return EvaluationContext(
            appID: appID, appInstanceID: instanceID, countryCode: members.text(.country),
            languageCode: members.text(.language), timeZone: members.text(.timeZone),
            appVersion: members.text(.appVersion), appBuild: members.text(.appBuild),
            firstOpenTime: members.text(.firstOpen).flatMap { Timestamp($0) },
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

/// The members of a fetch's body that mean something, and of the context in a request for flags.
package enum FetchField: Int, Sendable, CaseIterable {
    case appID
    case instanceID
    case token
    case language
    case country
    case platformVersion
    case timeZone
    case appVersion
    case appBuild
    case packageName
    case sdkVersion
    case firstOpen
    case activeVersion
    case userProperties
    case customSignals
    /// Only of a context: a fetch says it in its app id.
    case platform

    var names: (camel: StaticString, snake: StaticString) {
        switch self {
        case .appID: ("appId", "app_id")
        case .instanceID: ("appInstanceId", "app_instance_id")
        case .token: ("appInstanceIdToken", "app_instance_id_token")
        case .language: ("languageCode", "language_code")
        case .country: ("countryCode", "country_code")
        case .platformVersion: ("platformVersion", "platform_version")
        case .timeZone: ("timeZone", "time_zone")
        case .appVersion: ("appVersion", "app_version")
        case .appBuild: ("appBuild", "app_build")
        case .packageName: ("packageName", "package_name")
        case .sdkVersion: ("sdkVersion", "sdk_version")
        case .firstOpen: ("firstOpenTime", "first_open_time")
        case .activeVersion: ("activeTemplateVersion", "active_template_version")
        case .userProperties: ("analyticsUserProperties", "analytics_user_properties")
        case .customSignals: ("customSignals", "custom_signals")
        case .platform: ("", "")
        }
    }

    /// Its names in a context; what has none there is a custom signal.
    var flagNames: [StaticString] {
        switch self {
        case .instanceID: ["targetingKey"]
        case .appID: ["appId"]
        case .platform: ["platform", "os"]
        case .appVersion: ["appVersion"]
        case .appBuild: ["appBuild"]
        case .country: ["country", "countryCode"]
        case .language: ["language", "languageCode"]
        case .timeZone: ["timeZone"]
        case .firstOpen: ["firstOpenTime"]
        case .token, .platformVersion, .packageName, .sdkVersion, .activeVersion, .userProperties, .customSignals: []
        }
    }

    /// A map of texts, not one text.
    var isMap: Bool { self == .userProperties || self == .customSignals }

    /// Text that iOS prints for nil, also within quotes.
    static let printedNil: StaticString = "(null)"
}

/// A fetch's body, read: as JSON values where it is anything, in place where it is ordinary.
package protocol FetchMembers {
    /// Numbers and booleans count as their text. nil is absent, null, empty or ``FetchField/printedNil``.
    func text(_ field: FetchField) -> String?
    /// A map of texts; members that are null unset nothing here and are left out.
    func texts(_ field: FetchField) throws(GoogleError) -> [String: String]
    /// Whether ``text(_:)`` is a text.
    func has(_ field: FetchField) -> Bool
}

extension FetchMembers {
    func required(_ field: FetchField) throws(GoogleError) -> String {
        guard let text = text(field) else { throw .missing(field) }
        return text
    }
}

extension GoogleError {
    static func missing(_ field: FetchField) -> GoogleError { .invalidArgument("\(field.names.camel) is missing") }
}

/// Finds a member by its name in one of the two kinds of body.
struct FetchNames: Sendable {
    private var byLength = [[(name: StaticString, field: FetchField)]](repeating: [], count: 32)

    static let fetch = FetchNames { $0 == .platform ? [] : [$0.names.camel, $0.names.snake] }
    static let flags = FetchNames(\.flagNames)

    private init(_ names: (FetchField) -> [StaticString]) {
        for field in FetchField.allCases {
            for name in names(field) { byLength[name.utf8CodeUnitCount].append((name, field)) }
        }
    }

    func field(named name: UnsafeBufferPointer<UInt8>) -> FetchField? {
        guard name.count < byLength.count, let base = name.baseAddress else { return nil }
        for (known, field) in byLength[name.count] where memcmp(known.utf8Start, base, name.count) == 0 {
            return field
        }
        return nil
    }

    func field(named name: String) -> FetchField? {
        var name = name
        return name.withUTF8 { field(named: $0) }
    }
}

/// Codings of an answer's body that a client takes.
enum ContentCoding {
    /// Whether the value of `Accept-Encoding` admits gzip (RFC 9110 §12.5.3). A weight of 0 forbids it.
    static func admitsGzip(_ value: String) -> Bool {
        if value == "gzip" { return true }
        return value.utf8.split(separator: UInt8(ascii: ",")).contains { item in
            let item = item.filter { $0 != 0x20 && $0 != 0x09 }
            guard item.prefix(4).map({ $0 | 0x20 }).elementsEqual("gzip".utf8) else { return false }
            let weight = item.dropFirst(4)
            return weight.isEmpty || weight.first == UInt8(ascii: ";") && weight.contains { (0x31...0x39).contains($0) }
        }
    }
}
