import NIOHTTP1
import StalecastAccess
package import StalecastHTTP
import StalecastHub
import StalecastWire

/// A complete request, as the router reads it.
package struct FrontRequest: Sendable {
    package let head: RequestHead
    package let body: [UInt8]
    /// Result of checking its token, once that was done.
    var verification: Credentials.Verification?
    /// The request is a canary of this daemon, which gets the newest version whatever a release covers.
    var isCanary = false
    /// Time when a fetch was read whole, in nanoseconds of the monotonic clock.
    var beganAt: UInt64 = 0
    /// Seconds since the last confirmation that this node has the newest.
    var unverified: Int?
    /// Its cursor is ahead of everything there is, and was waited for.
    var isAwaited = false
    var question: SecretDigest?
    /// Value of ``SessionCookie``, where it counts.
    var cookie: String?
    var certificate: ClientCertificate?
    /// The peer's key in ``AddressLedger``.
    var address = AddressLedger.unknown

    package init(_ request: Request) {
        head = request.head
        body = request.body
    }

    var isHTTP11: Bool { head.isHTTP11 }
    package var path: Substring { head.path }
    package var query: Substring { head.query }
    /// False when the request cannot be one for a stream; saves the search for what lies behind it.
    var mayBeStream: Bool { !path.hasSuffix(":fetch") && !isOfFlags && launchDarkly?.isFetch != true }
    /// Whether the request is for values, which must not be older than the last announcement.
    var asksForValues: Bool { !mayBeStream && (head.method == .POST || head.method == .GET || head.method == .REPORT) }
    /// nil for a path of other clients.
    var launchDarkly: LaunchDarklyPath? {
        LaunchDarklyPath(path, authorization: head.headers.first(name: "authorization"))
    }
    /// Path for the log: without keys and contexts.
    var loggedPath: String { LaunchDarklyPath(path)?.stem ?? String(path) }
    private var isOfFlags: Bool {
        path.hasPrefix("/ofrep/") || path.hasPrefix("/v1/projects/") && path.contains("/ofrep/v1/")
    }
    /// About as many bytes as it holds.
    var weight: Int {
        head.headers.reduce(path.utf8.count + query.utf8.count + body.count) {
            $0 + $1.name.utf8.count + $1.value.utf8.count
        }
    }
    var origin: String? { head.headers.first(name: "origin") }

    var credentials: Credentials {
        var credentials = Credentials(head)
        if path.hasPrefix("/v1/projects/") || isOfFlags { credentials.dropInstallationToken() }
        if let launchDarkly { credentials.take(launchDarkly) }
        credentials.verification = verification
        credentials.question = question
        credentials.cookie = cookie
        // A browser shows the certificate also for requests of other sites' pages, without the user's knowledge.
        credentials.certificate = origin == nil ? certificate : nil
        return credentials
    }

    /// Part of it that the user's backend is to see; nil when there is none. A cookie comes along with the requests of
    /// any page, so it counts only for those of ours.
    func question(_ names: [String], allowedOrigins: [String]) -> CallerHook.Question? {
        let isForeign = origin.map { !allowedOrigins.contains($0) } ?? false
        return CallerHook.Question(
            names.compactMap { name in
                if name == "cookie", isForeign { return nil }
                let values = head.headers[name]
                return values.isEmpty
                    ? nil : CallerHook.Question.Header(name, values.joined(separator: name == "cookie" ? "; " : ", "))
            })
    }

    package var streamHeaders: StreamHeaders {
        var headers = StreamHeaders(head)
        headers.credentials = credentials
        return headers
    }
}

enum FrontOutcome {
    case respond(FrontResponse)
    /// An answer to `:fetch` whose bytes are shared.
    case fetched(FetchAnswer)
    case subscribe(StreamRequest)
    case claim(ClientIdentity, Scope, ClientReport)
}

struct FrontResponse {
    var status = 200
    var type = "application/json"
    /// Whole header lines ending in CRLF.
    var fields = ""
    var body: [UInt8] = []
    /// `Cache-Control`.
    var caching = "no-store"
    /// Pages of all origins may read it, whatever `edge.allowedOrigins` says.
    var isForAnyPage = false
    /// Event of an installation, for the tally.
    var installation: FetchTally.InstallationEvent?
    /// The request had analytics events, which are not kept.
    var isOfDroppedEvents = false
}

extension FrontResponse {
    init(_ error: GoogleError) { self.init(status: error.code, fields: error.fields, body: error.body) }
}
