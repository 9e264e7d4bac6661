package import StalecastAccess
package import StalecastWire
import Synchronization

/// Sessions of the console, in memory only. A session holds the credential it was opened with, which is judged again at
/// each request: what happens to the key, or to the token, happens to the session.
package final class ConsoleSessions: Sendable {
    /// A code is for the page that opens next.
    package static let codeLife: Duration = .seconds(60)
    /// Time without a request after which a session ends; a page that is open asks all the time.
    package static let idleLife: Duration = .seconds(3600)
    package static let life: Duration = .seconds(12 * 3600)
    /// Sessions, and codes, at once; the one that was used longest ago makes room.
    package static let most = 64
    /// Sessions of one holder of credentials, who makes room with their own.
    package static let mostOfOne = 16
    /// Wrong codes and tokens of one address within a minute; after them it is told 429.
    package static let wrongPerMinute = 10
    /// Sign-ins of one holder within a minute: each is a line of the audit log.
    package static let signInsPerMinute = 20

    /// Session that a cookie stands for.
    package struct Session: Sendable {
        package let credentials: Credentials
        /// Name that the user gave; may be empty.
        package let user: String
        /// ``Principal/actor``; empty for a code.
        let holder: String
        package let opened: Timestamp
        package var used: Timestamp
        /// Address at the issuer that ends the person's session there; nil for other credentials.
        var farewell: String?

        package var ends: Timestamp { opened.advanced(by: life) }
        func isOver(at now: Timestamp) -> Bool { ends <= now || used.advanced(by: idleLife) <= now }
    }

    private struct State: Sendable {
        var codes: [SecretDigest: Session] = [:]
        var sessions: [SecretDigest: Session] = [:]
        var wrong = RecentCounts()
        var signIns = RecentCounts()
    }

    private let state = Mutex(State())
    private let clock: @Sendable () -> Timestamp
    private let secret: SecretMaker
    /// Sign-in with issuers; nil where it is not offered.
    let signIn: SignInService?

    /// - Parameters:
    ///   - signIn: nil offers codes, keys and tokens only.
    ///   - random: 64 bits that cannot be guessed.
    package init(
        signIn: SignInService? = nil,
        clock: @escaping @Sendable () -> Timestamp = Timestamp.now,
        random: @escaping @Sendable () -> UInt64 = { UInt64.random(in: .min ... .max) }
    ) {
        self.signIn = signIn
        self.clock = clock
        secret = SecretMaker(random: random)
    }

    private static func put(
        _ session: Session, as secret: String, in sessions: inout [SecretDigest: Session], _ now: Timestamp
    ) {
        sessions = sessions.filter { !$0.value.isOver(at: now) }
        let own = sessions.filter { $0.value.holder == session.holder }
        let crowded = own.count >= mostOfOne && !session.holder.isEmpty ? own : sessions.count >= most ? sessions : [:]
        if let oldest = crowded.min(by: { $0.value.used < $1.value.used }) { sessions[oldest.key] = nil }
        sessions[SecretDigest(of: secret)] = session
    }

    /// A code that opens one session within ``codeLife``.
    package func makeCode(for credentials: Credentials, user: String) -> String {
        let (code, now) = (secret(), clock())
        state.withLock { state in
            state.codes = state.codes.filter { now < $0.value.opened.advanced(by: Self.codeLife) }
            Self.put(
                Session(credentials: credentials, user: user, holder: "", opened: now, used: now), as: code,
                in: &state.codes, now)
        }
        return code
    }

    /// Uses up a code; nil for one that is none, or no longer.
    package func take(code: String) -> (credentials: Credentials, user: String)? {
        let now = clock()
        let taken = state.withLock { $0.codes.removeValue(forKey: SecretDigest(of: code)) }
        guard let taken, now < taken.opened.advanced(by: Self.codeLife) else { return nil }
        return (taken.credentials, taken.user)
    }

    /// - Parameters:
    ///   - holder: ``Principal/actor``.
    ///   - farewell: see ``Session/farewell``.
    /// - Returns: the cookie's value; nil when they sign in too often.
    package func open(
        _ credentials: Credentials, user: String, of holder: String, farewell: String? = nil
    ) -> String? {
        let (cookie, now) = (secret(), clock())
        return state.withLock { state in
            guard state.signIns.hasRoom(for: holder, below: Self.signInsPerMinute, at: now) else { return nil }
            state.signIns.count(holder, at: now)
            Self.put(
                Session(
                    credentials: credentials, user: user, holder: holder, opened: now, used: now, farewell: farewell),
                as: cookie, in: &state.sessions, now)
            return cookie
        }
    }

    /// Session of a cookie, which counts as used; nil for none.
    package func session(_ cookie: String) -> Session? {
        let (digest, now) = (SecretDigest(of: cookie), clock())
        return state.withLock { state in
            guard var session = state.sessions[digest] else { return nil }
            if session.isOver(at: now) {
                state.sessions[digest] = nil
                return nil
            }
            session.used = max(session.used, now)
            state.sessions[digest] = session
            return session
        }
    }

    /// The credential of a session that goes on; nil when it is over. That is no use of it: a stream that it opened
    /// may be all there is.
    package func held(_ cookie: String) -> Credentials? {
        let (digest, now) = (SecretDigest(of: cookie), clock())
        return state.withLock { $0.sessions[digest].flatMap { $0.isOver(at: now) ? nil : $0.credentials } }
    }

    /// - Returns: ``Session/farewell`` of the session.
    @discardableResult
    package func close(_ cookie: String) -> String? {
        state.withLock { $0.sessions.removeValue(forKey: SecretDigest(of: cookie))?.farewell }
    }

    // MARK: Guessing

    /// Whether an address may try to sign in.
    package func mayTry(_ address: String) -> Bool {
        let now = clock()
        return state.withLock { $0.wrong.hasRoom(for: address, below: Self.wrongPerMinute, at: now) }
    }

    /// An address tried in vain.
    package func failed(_ address: String) {
        let now = clock()
        state.withLock { $0.wrong.count(address, at: now) }
    }
}
