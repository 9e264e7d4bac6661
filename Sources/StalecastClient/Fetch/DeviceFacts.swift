import Foundation

/// Facts about this device and app that conditions may ask for.
struct DeviceFacts: Sendable, Equatable {
    /// Upper case, for example `FR`; nil when the system does not say.
    var country: String?
    /// BCP 47, for example `fr-FR`.
    var language: String
    /// The system's version, for example `18.1.0`.
    var platformVersion: String
    /// IANA name, for example `Europe/Paris`.
    var timeZone: String
    /// `CFBundleShortVersionString`; nil outside of an app bundle.
    var appVersion: String?
    /// `CFBundleVersion`; nil outside of an app bundle.
    var appBuild: String?
    /// The bundle id; nil outside of an app bundle.
    var packageName: String?

    /// The system's and the bundle's, but for what `options` says.
    static func current(_ options: StalecastOptions) -> DeviceFacts {
        let system = ProcessInfo.processInfo.operatingSystemVersion
        let identifier = Locale.current.identifier
        return DeviceFacts(
            country: options.country ?? country(of: identifier),
            language: options.language ?? language(of: Locale.preferredLanguages.first ?? identifier),
            platformVersion: "\(system.majorVersion).\(system.minorVersion).\(system.patchVersion)",
            timeZone: TimeZone.current.identifier,
            appVersion: options.appVersion ?? Bundle.main.infoDictionary?["CFBundleShortVersionString"] as? String,
            appBuild: options.appBuild ?? Bundle.main.infoDictionary?["CFBundleVersion"] as? String,
            packageName: Bundle.main.bundleIdentifier)
    }

    /// `fr_FR@calendar=…` → `FR`.
    private static func country(of identifier: String) -> String? {
        let parts = identifier.prefix { $0 != "@" && $0 != "." }.split { "_-".contains($0) }.dropFirst()
        return parts.first { $0.count == 2 && $0.allSatisfy(\.isLetter) }.map { $0.uppercased() }
    }

    /// `fr_FR.UTF-8` → `fr-FR`.
    private static func language(of identifier: String) -> String {
        let plain = identifier.prefix { $0 != "@" && $0 != "." }
        return plain.isEmpty ? "en" : plain.replacingOccurrences(of: "_", with: "-")
    }

    /// Changes whenever the server's answer may change without a new version: the iOS SDK's device context.
    func context(appID: String) -> String {
        [appVersion ?? "", appBuild ?? "", platformVersion, country ?? "", language, appID].joined(separator: "|")
    }
}
