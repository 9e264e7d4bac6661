package import StalecastOutbound
import StalecastWire
import Synchronization

/// An installation id and its token, without which Google serves no client: made once per run of the daemon, the token
/// renewed before it expires.
package final class FirebaseInstallation: Sendable {
    private let url: OutboundURL
    private let access: OriginAccess
    private let appID: String
    private let headers: [OutboundHeader]
    private let state: Mutex<State>

    private struct State {
        var id: String
        var token: String?
        /// Time until which the token is used without asking for another.
        var renewal = ContinuousClock.now
        var end = ContinuousClock.now
        /// Time before which no token is asked for, after a failure.
        var retry = ContinuousClock.now
        /// Reason why the last request for a token brought none.
        var problem: OriginProblem?
    }

    /// Google's host.
    package static let defaultBase = "https://firebaseinstallations.googleapis.com"
    /// Shown where no installation is made: a well-formed id.
    static let fallbackID = "cStalecastSourceProbe0"
    /// Remaining life at which a token is renewed; half of its life if that is shorter.
    private static let margin = Duration.seconds(600)
    /// Time after a failure without another request: a fence probes twenty times a second.
    private static let pause = Duration.seconds(10)

    /// - Throws: ``OutboundURL/Invalid`` for a base that is no URL or a key that is no header's value.
    package init(
        base: String, project: String, apiKey: String, appID: String, access: OriginAccess
    ) throws(OutboundURL.Invalid) {
        url = try OutboundURL("\(base)/v1/projects/\(project)/installations")
        headers = [
            try OutboundHeader("X-Goog-Api-Key", apiKey), OutboundHeader(trusted: "Content-Type", "application/json"),
        ]
        self.access = access
        self.appID = appID
        state = Mutex(State(id: Self.freshID()))
    }

    package var id: String { state.withLock(\.id) }

    /// Reason for the end of a refusal: why no token could be had; empty when one was.
    package var excuse: String {
        state.withLock { $0.problem.map { "; no installation token could be had: \($0.description)" } ?? "" }
    }

    /// nil when none could be had: the stream is then tried without, and its refusal says what is wrong, with
    /// ``excuse``.
    package func token() async -> String? {
        let now = ContinuousClock.now
        let (known, mayAsk) = state.withLock { state in
            (state.end > now ? state.token : nil, state.renewal <= now && state.retry <= now)
        }
        if !mayAsk { return known }
        do throws(OriginProblem) {
            let (token, answer) = try await ask()
            // Google spells durations as `604800s` (JSON mapping of protobuf's `Duration`).
            let seconds = answer["authToken"]?["expiresIn"]?.string.flatMap { Int($0.dropLast()) } ?? 3600
            let lifetime = Duration.seconds(min(max(seconds, 10), 30 * 86_400))
            state.withLock {
                $0.id = answer["fid"]?.string ?? $0.id
                $0.token = token
                $0.end = now + lifetime
                $0.renewal = now + max(lifetime - Self.margin, lifetime / 2)
                $0.problem = nil
            }
            return token
        } catch {
            state.withLock {
                $0.retry = .now + Self.pause
                $0.problem = error
            }
            return known
        }
    }

    private func ask() async throws(OriginProblem) -> (token: String, answer: JSONValue) {
        let body: JSONValue = [
            "fid": .string(id), "authVersion": "FIS_v2", "appId": .string(appID), "sdkVersion": "w:0.6.0",
        ]
        let answer = try await access.answer("POST", url, headers: headers, body: body.encoded())
        guard let json = JSONValue.ifValid(answer.body), let token = json["authToken"]?["token"]?.string,
            (1...4096).contains(token.utf8.count), token.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else { throw OriginProblem(.invalidContent, "\(url.host) answers without a token") }
        return (token, json)
    }

    /// 22 characters of base64url whose first four bits are 0111.
    private static func freshID() -> String {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
        let first = Array("cdef")[Int.random(in: 0...3)]
        return String([first] + (0..<21).map { _ in alphabet[Int.random(in: 0..<64)] })
    }
}
