package import StalecastOutbound
package import StalecastWire

/// As which client an origin's real-time stream is opened.
package struct InvalidationStreamSettings: Sendable {
    package let url: OutboundURL
    /// With the API key.
    let headers: [OutboundHeader]
    /// For Google, which asks for an installation's token; nil where none is needed.
    package var installation: FirebaseInstallation?
    package var backoff = StreamBackoff()
    private let project: String
    private let namespace: Namespace
    private let appID: String

    /// Google's host.
    package static let defaultBase = "https://firebaseremoteconfigrealtime.googleapis.com"

    /// - Parameters:
    ///   - base: scheme, host and port; another Stalecast's is its Edge.
    ///   - project: id or number, as the origin's clients use it.
    ///   - appID: `1:123456789012:web:0a1b2c3d`; any text where the origin does not check.
    /// - Throws: ``OutboundURLError`` for a base that is no URL or a key that is no header's value.
    package init(
        base: String, project: String, namespace: Namespace, apiKey: String, appID: String
    ) throws(OutboundURLError) {
        url = try OutboundURL("\(base)/v1/projects/\(project)/namespaces/\(namespace):streamFetchInvalidations")
        headers = [
            try OutboundHeader("X-Goog-Api-Key", apiKey),
            OutboundHeader(trusted: "Content-Type", "application/json"),
            OutboundHeader(trusted: "Accept", "application/json"),
            OutboundHeader(trusted: "X-Google-GFE-Can-Retry", "yes"),
            OutboundHeader(trusted: "X-Accept-Response-Streaming", "true"),
        ]
        self.project = project
        self.namespace = namespace
        self.appID = appID
    }

    /// - Parameter known: 0 for none; the origin answers at once when it has a newer one.
    func body(known: VersionNumber) -> [UInt8] {
        let body: JSONValue = [
            "project": .string(project), "namespace": .string(namespace.description),
            "lastKnownVersionNumber": .string(String(known)), "appId": .string(appID), "sdkVersion": "1.0.0",
            "appInstanceId": .string(installation?.id ?? FirebaseInstallation.fallbackID),
        ]
        return body.encoded()
    }
}

/// How long to wait before a stream is opened again.
package struct StreamBackoff: Sendable {
    /// After a stream that lived well. Default 200 ms, so that an origin's restart is no hot loop.
    package var afterEnd: Duration = .milliseconds(200)
    /// After the first failure; doubles. Default 1 s.
    package var first: Duration = .seconds(1)
    /// Default 5 min.
    package var longest: Duration = .seconds(300)

    package init() {}

    /// With jitter: between half and the whole of it.
    func delay(afterFailures failures: Int) -> Duration {
        let whole = failures == 0 ? afterEnd : min(first * (1 << min(failures - 1, 16)), longest)
        return whole * Double.random(in: 0.5...1)
    }
}
