/// The platform an app id names: `1:<project number>:<platform>:<hash>`; or that a client does not speak Firebase's
/// way. Raw values are metric labels.
package enum FetchDialect: String, Sendable, CaseIterable {
    case web
    case ios
    case android
    /// A provider of OpenFeature, whatever app id it names.
    case ofrep
    case launchDarkly = "launchdarkly"
    /// Desktop C++ apps carry an Android app id; this is for ids of no such form.
    case other

    /// Reads the third part of an app id.
    package init(appID: String) {
        var appID = appID
        self = appID.withUTF8(Self.named)
    }

    private static func named(in appID: UnsafeBufferPointer<UInt8>) -> FetchDialect {
        var rest = appID[...]
        for _ in 0..<2 {
            guard let colon = rest.firstIndex(of: UInt8(ascii: ":")) else { return .other }
            rest = rest[(colon + 1)...]
        }
        guard let colon = rest.firstIndex(of: UInt8(ascii: ":")) else { return .other }
        let name = UnsafeBufferPointer(rebasing: rest[..<colon])
        return apps.first { $0.rawValue.utf8.count == name.count && name.elementsEqual($0.rawValue.utf8) } ?? .other
    }

    private static let apps: [FetchDialect] = [.web, .ios, .android]

    var index: Int {
        switch self {
        case .web: 0
        case .ios: 1
        case .android: 2
        case .other: 3
        case .ofrep: 4
        case .launchDarkly: 5
        }
    }
}
