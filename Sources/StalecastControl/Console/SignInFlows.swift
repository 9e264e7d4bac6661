import Crypto
import Foundation
import StalecastAccess
import StalecastWire
import Synchronization

/// Sign-ins that were begun and have not come back from their issuer yet, in memory only. A flow belongs to the browser
/// that has its cookie, goes to one issuer, and is good once.
final class SignInFlows: Sendable {
    static let life: Duration = .seconds(600)
    /// Flows at once; the oldest makes room.
    static let most = 256
    /// Sign-ins that one address may begin within a minute.
    static let begunPerMinute = 20

    /// One sign-in.
    struct Flow: Sendable {
        /// The issuer's configured name.
        let issuer: String
        /// The console's origin, as the browser named it.
        let origin: String
        let state: String
        let nonce: String
        /// Secret behind the challenge (RFC 7636).
        let verifier: String
        let begun: Timestamp

        var redirect: String { "\(origin)/console/signed-in/\(issuer)" }
        var challenge: String { Base64URL.encode(SHA256.hash(data: Data(verifier.utf8))) }
    }

    private struct State: Sendable {
        /// Flows by the digest of their cookie.
        var flows: [SecretDigest: Flow] = [:]
        /// Sentences for browsers whose sign-in failed, and their times.
        var problems: [SecretDigest: (text: String, at: Timestamp)] = [:]
        var begun = RecentCounts()

        mutating func put(_ flow: Flow, for cookie: String) {
            flows = flows.filter { flow.begun < $0.value.begun.advanced(by: life) }
            if flows.count >= most, let oldest = flows.min(by: { $0.value.begun < $1.value.begun }) {
                flows[oldest.key] = nil
            }
            flows[SecretDigest(of: cookie)] = flow
        }

        mutating func put(problem text: String, for cookie: String, at now: Timestamp) {
            problems = problems.filter { now < $0.value.at.advanced(by: life) }
            if problems.count >= most, let oldest = problems.min(by: { $0.value.at < $1.value.at }) {
                problems[oldest.key] = nil
            }
            problems[SecretDigest(of: cookie)] = (text, now)
        }
    }

    private let state = Mutex(State())
    private let clock: @Sendable () -> Timestamp
    private let secret: SecretMaker

    init(
        clock: @escaping @Sendable () -> Timestamp = Timestamp.now,
        random: @escaping @Sendable () -> UInt64 = { UInt64.random(in: .min ... .max) }
    ) {
        self.clock = clock
        secret = SecretMaker(random: random)
    }

    /// - Returns: the flow and the value of its cookie; nil when the address begins too many.
    func begin(_ issuer: String, origin: String, from address: String) -> (flow: Flow, cookie: String)? {
        let (cookie, now) = (secret(), clock())
        let flow = Flow(
            issuer: issuer, origin: origin, state: secret(), nonce: secret(), verifier: secret(), begun: now)
        return state.withLock { state in
            guard state.begun.hasRoom(for: address, below: Self.begunPerMinute, at: now) else { return nil }
            state.begun.count(address, at: now)
            state.put(flow, for: cookie)
            return (flow, cookie)
        }
    }

    /// Uses up the flow of a browser; nil unless the browser, the issuer and the state are those of one that was begun.
    func take(_ cookie: String, issuer: String, state text: String) -> Flow? {
        let (digest, now) = (SecretDigest(of: cookie), clock())
        return state.withLock { state in
            guard let flow = state.flows[digest], flow.issuer == issuer,
                SecretDigest(of: flow.state).matches(SecretDigest(of: text))
            else { return nil }
            state.flows[digest] = nil
            return now < flow.begun.advanced(by: Self.life) ? flow : nil
        }
    }

    /// Keeps a sentence for the browser's next page.
    ///
    /// - Parameter known: the browser's cookie; nil when it has none, or none any more.
    /// - Returns: the cookie that the sentence is kept for.
    func fail(_ known: String?, _ sentence: String) -> String {
        let (cookie, now) = (known ?? secret(), clock())
        state.withLock { $0.put(problem: sentence, for: cookie, at: now) }
        return cookie
    }

    /// Sentence for a browser; once.
    func problem(_ cookie: String) -> String? {
        state.withLock { $0.problems.removeValue(forKey: SecretDigest(of: cookie))?.text }
    }
}
