import StalecastHTTP

/// The members of a fetch's body that mean something.
enum FetchField: Int, Sendable, CaseIterable {
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

    static let count = 15

    /// Its two names.
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
        }
    }

    /// A map of texts, not one text.
    var isMap: Bool { self == .userProperties || self == .customSignals }

    /// What iOS prints for nothing, also within quotes.
    static let printedNil: StaticString = "(null)"
}

/// A fetch's body, read: as JSON values where it is anything, in place where it is ordinary.
protocol FetchMembers {
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
