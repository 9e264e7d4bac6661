package import StalecastWire

/// Facts that an app instance gives of itself in a fetch: everything conditions read. What it does not say is nil, and
/// every test of it false.
package struct EvaluationContext: Sendable, Hashable {
    /// `1:<project number>:<android|ios|web>:<hex>`.
    package var appID: String?
    /// The Firebase installation id; percent buckets, rollouts and experiments are drawn from it.
    package var appInstanceID: String?
    /// ISO 3166-1 alpha-2 in either case.
    package var countryCode: String?
    /// An IETF tag, or as iOS spells it, `en_US`.
    package var languageCode: String?
    /// IANA's name.
    package var timeZone: String?
    package var appVersion: String?
    package var appBuild: String?
    package var firstOpenTime: Timestamp?
    /// Analytics user properties by name; an empty text is a value.
    package var analyticsUserProperties: [String: String]
    /// Signals by name; an empty text is a value.
    package var customSignals: [String: String]
    /// The Analytics audiences the instance is in. No SDK sends them; nil is "not known", an empty list "in none".
    package var audiences: [String]?
    /// The imported segments the instance is in, like ``audiences``.
    package var importedSegments: [String]?
    package var web = Web()
    /// `ios`, `android` or `web`, of a client that says it without an app id; wins over that of ``appID``.
    package var statedPlatform: String?
    /// Time of the fetch; default the wall clock's time.
    package var now: Timestamp

    package init(
        appID: String? = nil, appInstanceID: String? = nil, countryCode: String? = nil, languageCode: String? = nil,
        timeZone: String? = nil, appVersion: String? = nil, appBuild: String? = nil, firstOpenTime: Timestamp? = nil,
        analyticsUserProperties: [String: String] = [:], customSignals: [String: String] = [:],
        now: Timestamp = .now()
    ) {
        (self.appID, self.appInstanceID) = (appID, appInstanceID)
        (self.countryCode, self.languageCode) = (countryCode, languageCode)
        (self.timeZone, self.appVersion) = (timeZone, appVersion)
        (self.appBuild, self.firstOpenTime) = (appBuild, firstOpenTime)
        (self.analyticsUserProperties, self.customSignals) = (analyticsUserProperties, customSignals)
        self.now = now
    }

    /// Facts of a web app that no SDK sends.
    package struct Web: Sendable, Hashable {
        /// System, for example `macOS-15`.
        package var operatingSystemAndVersion: String?
        /// Browser, for example `Chrome-120`.
        package var browserAndVersion: String?
    }

    /// `ios`, `android` or `web`, as ``statedPlatform`` or ``appID`` says; nil for anything else.
    package var platform: String? {
        if let statedPlatform { return statedPlatform }
        // By bytes: an id is a stranger's, and letters with marks are dear to tell apart.
        let colon = UInt8(ascii: ":")
        guard let parts = appID?.utf8.split(separator: colon, maxSplits: 4, omittingEmptySubsequences: false),
            parts.count == 4
        else { return nil }
        return ["ios", "android", "web"].first { parts[2].elementsEqual($0.utf8) }
    }
}
