import NIOHTTP1
import StalecastAccess
import StalecastHTTP
import StalecastWire

/// Facts that a browser adds to a request by itself, and what follows from them. Requests with a credential of their
/// own are no page's: nothing here is asked of them.
struct BrowserRequest: Sendable {
    private let head: RequestHead
    private let configuration: ControlConfiguration
    /// The console's cookie; nil when there is none, or a credential beside it.
    let cookie: String?
    /// Whether the request is for one of the console's own paths.
    private let isConsole: Bool

    init(
        _ head: RequestHead, _ credentials: Credentials, cookieNames: @autoclosure () -> [String],
        _ configuration: ControlConfiguration
    ) {
        self.head = head
        self.configuration = configuration
        isConsole = head.path == "/console" || head.path.hasPrefix("/console/")
        cookie = credentials.isEmpty ? Self.cookie(named: cookieNames(), head) : nil
    }

    /// Value of the first name that has one.
    static func cookie(named names: [String], _ head: RequestHead) -> String? {
        let pairs = head.headers[canonicalForm: "cookie"].flatMap { $0.split(separator: ";") }.map {
            $0.trimmingBlanks()
        }
        for name in names {
            guard let pair = pairs.first(where: { $0.hasPrefix(name + "=") }) else { continue }
            return String(pair.dropFirst(name.utf8.count + 1))
        }
        return nil
    }

    /// - Throws: 421 for a host that is not ours, 403 for what another origin's page sends.
    func check(isStranger: Bool) throws(GoogleError) {
        guard isConsole || cookie != nil else { return }
        // A page can make its own name resolve to this address; then only the name tells.
        let host = head.headers.first(name: "host") ?? ""
        guard HostRule.only(configuration.settings.hosts).judge(host) == .admitted else {
            throw .misdirected
        }
        guard isStranger, !["GET", "HEAD", "OPTIONS"].contains(head.method.rawValue) else { return }
        guard isOfOneOrigin(with: host) else { throw .crossOrigin }
    }

    /// The rule of Go 1.25's `CrossOriginProtection`. Who sends neither field is no browser, and has no use for a
    /// cookie.
    private func isOfOneOrigin(with host: String) -> Bool {
        let sites = head.headers[canonicalForm: "sec-fetch-site"]
        // No script can set this field, so it decides alone where a browser sends it.
        if !sites.isEmpty { return sites.allSatisfy { $0 == "same-origin" || $0 == "none" } }
        let origins = head.headers[canonicalForm: "origin"]
        if origins.isEmpty { return cookie == nil }
        return origins.allSatisfy { origin in
            let scheme = origin.prefix { $0 != ":" }
            return origin.dropFirst(scheme.count).lowercased() == "://\(host)".lowercased()
        }
    }
}

extension GoogleError {
    fileprivate static let crossOrigin = GoogleError(
        403, "A page of another origin, or no page at all, sent this with the console's cookie. Programs send a token.")
}
