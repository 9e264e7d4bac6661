import Foundation
import StalecastWire

/// One `:fetch`, with the Android SDK's field names.
struct FetchRequest: Sendable {
    var options: StalecastOptions
    var namespace: String
    var facts: DeviceFacts
    var installation: Installation
    /// The installation's auth token; Stalecast takes any.
    var token: String
    /// Shown as `Authorization: Bearer`; nil shows what the options' headers say.
    var bearer: String?
    /// ETag of the content held; nil when none is.
    var etag: String?
    var customSignals: [String: String]
    /// The version that the app runs; nil when it runs none.
    var activeVersion: Int64?
    /// `BASE/1`, or `REALTIME/n` for the n-th attempt after a message.
    var fetchType: String
    /// Seconds.
    var timeout: TimeInterval

    var transportRequest: TransportRequest {
        var request = TransportRequest(
            method: "POST", url: url, headers: headers, body: Data(JSONValue.object(body).encoded()),
            timeout: timeout)
        request.authorityFile = options.authorityFile
        return request
    }

    private var url: URL {
        let path = "v1/projects/\(options.project)/namespaces/\(namespace):fetch"
        return options.endpoint.appendingPathComponent(path)
    }

    private var headers: [String: String] {
        var headers = [
            "Content-Type": "application/json", "Accept": "application/json",
            "X-Firebase-RC-Fetch-Type": fetchType, "X-Goog-Firebase-Installations-Auth": token,
        ]
        headers["If-None-Match"] = etag
        headers["X-Goog-Api-Key"] = options.apiKey
        #if canImport(Darwin)
            // Google compares this header with the iOS apps to which an API key is restricted.
            headers["X-Ios-Bundle-Identifier"] = facts.packageName
        #endif
        headers.merge(options.headers) { _, own in own }
        if let bearer { headers.setAuthorization("Bearer \(bearer)") }
        return headers
    }

    private var body: JSONObject {
        [
            "appInstanceId": .string(installation.id), "appInstanceIdToken": .string(token),
            "appId": .string(options.appID), "sdkVersion": .string(SDKVersion.text),
            "languageCode": .string(facts.language), "platformVersion": .string(facts.platformVersion),
            "timeZone": .string(facts.timeZone),
            "firstOpenTime": .string(Timestamp(installation.firstOpenTime).description),
            "countryCode": facts.country.map(JSONValue.string), "appVersion": facts.appVersion.map(JSONValue.string),
            "appBuild": facts.appBuild.map(JSONValue.string),
            "packageName": facts.packageName.map(JSONValue.string),
            "activeTemplateVersion": activeVersion.map { .string(String($0)) },
            "customSignals": Self.object(customSignals),
            "analyticsUserProperties": Self.object(installation.userProperties),
        ]
    }

    /// - Returns: nil where there are none.
    private static func object(_ texts: [String: String]) -> JSONValue? {
        if texts.isEmpty { return nil }
        var object = JSONObject()
        for (name, text) in texts.sorted(by: { $0.key < $1.key }) { object[name] = .string(text) }
        return .object(object)
    }
}

extension Timestamp {
    /// The nearest there is: an app's date, or a cache file's, may be any. What is no number is 1970.
    init(_ date: Date) {
        let microseconds = (date.timeIntervalSince1970 * 1e6).rounded(.towardZero)
        let nearest: Int64 = microseconds.isNaN ? 0 : microseconds < 0 ? .min : .max
        self.init(microseconds: Int64(exactly: microseconds) ?? nearest)
    }
}

/// The version of this SDK, sent with every fetch.
enum SDKVersion {
    static let text = "1.0.0"
}
