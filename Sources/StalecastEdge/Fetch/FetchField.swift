import StalecastHTTP

/// The members of a fetch's body that mean something, and of the context in a request for flags.
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
    /// Only of a context: a fetch says it in its app id.
    case platform

    /// Its two names in a fetch.
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

    func field(named name: some Collection<UInt8>) -> FetchField? {
        let count = name.count
        guard count < byLength.count else { return nil }
        let found = byLength[count].first { known, _ in
            name.elementsEqual(UnsafeBufferPointer(start: known.utf8Start, count: count))
        }
        return found?.field
    }
}
