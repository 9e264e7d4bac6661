/// The platform an app id names: `1:<project number>:<platform>:<hash>`; or that a client does not speak Firebase's
/// way. Raw values are metric labels.
package enum FetchDialect: String, Sendable, CaseIterable {
    case web
    case ios
    case android
    /// A provider of OpenFeature, whatever app id it names.
    case ofrep
    /// A client-side SDK of LaunchDarkly.
    case launchDarkly = "launchdarkly"
    /// Desktop C++ apps carry an Android app id; this is for ids of no such form.
    case other

    /// Reads the third part of an app id.
    package init(appID: String) {
        let bytes = appID.utf8
        let colons = bytes.indices.lazy.filter { bytes[$0] == UInt8(ascii: ":") }.prefix(3)
        var (second, third): (String.Index?, String.Index?)
        for colon in colons { (second, third) = (third, colon) }
        guard let second, let third, colons.count == 3 else {
            self = .other
            return
        }
        let name = bytes[bytes.index(after: second)..<third]
        self = [.web, .ios, .android].first { name.elementsEqual($0.rawValue.utf8) } ?? .other
    }

    /// Its place among all.
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
