package import StalecastAccess
package import StalecastWire
import Synchronization

/// Sessions of the console. A session holds the credential it was opened with, which is judged again at each request:
/// what happens to the key, or to the token, happens to the session.
package final class ConsoleSessions: Sendable {
    /// A code is for the page that opens next.
    package static let codeLife: Duration = .seconds(60)
    /// Time without a request after which a session ends; a page that is open asks all the time.
    package static let idleLife: Duration = .seconds(3600)
    package static let life: Duration = .seconds(12 * 3600)
    /// Time after which the use of a session is written to the file.
    package static let writesUseAfter: Duration = .seconds(60)
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
        package internal(set) var credentials: Credentials
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
        var sessions: [SecretDigest: StoredSession] = [:]
        var written: Timestamp
        var wrong = RecentCounts()
        var signIns = RecentCounts()

        /// Adds a session; the one that was used longest ago makes room, of the same holder where that has too many.
        mutating func put(_ stored: StoredSession, as digest: SecretDigest, _ now: Timestamp) {
            sessions = sessions.filter { !$0.value.session.isOver(at: now) }
            let own = sessions.filter { $0.value.session.holder == stored.session.holder }
            let crowded = own.count >= mostOfOne ? own : sessions.count >= most ? sessions : [:]
            if let oldest = crowded.min(by: { $0.value.session.used < $1.value.session.used }) {
                sessions[oldest.key] = nil
            }
            sessions[digest] = stored
        }
    }

    private let state: Mutex<State>
    /// nil keeps sessions in memory only.
    private let file: SessionFile?
    private let clock: @Sendable () -> Timestamp
    private let secret: SecretMaker
    /// Sign-in with issuers; nil where it is not offered.
    let signIn: SignInService?

    /// - Parameters:
    ///   - signIn: nil offers codes, keys and tokens only.
    ///   - random: 64 bits that cannot be guessed.
    package init(
        signIn: SignInService? = nil, file: SessionFile? = nil,
        clock: @escaping @Sendable () -> Timestamp = Timestamp.now,
        random: @escaping @Sendable () -> UInt64 = { UInt64.random(in: .min ... .max) }
    ) {
        self.signIn = signIn
        self.file = file
        self.clock = clock
        let now = clock()
        let sessions = file?.read() ?? [:]
        // A session that begins in the future was made while the clock was wrong. Its age is unknown, so it is dropped.
        let known = sessions.filter { !$0.value.session.isOver(at: now) && $0.value.session.opened <= now }
        state = Mutex(State(sessions: known.count > Self.most ? [:] : known, written: now))
        secret = SecretMaker(random: random)
    }

    /// A code that opens one session within ``codeLife``.
    package func makeCode(for credentials: Credentials, user: String) -> String {
        let (code, now) = (secret(), clock())
        state.withLock { state in
            state.codes = state.codes.filter { now < $0.value.opened.advanced(by: Self.codeLife) }
            if state.codes.count >= Self.most, let oldest = state.codes.min(by: { $0.value.used < $1.value.used }) {
                state.codes[oldest.key] = nil
            }
            state.codes[SecretDigest(of: code)] = Session(
                credentials: credentials, user: user, holder: "", opened: now, used: now)
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
        let session = Session(
            credentials: credentials, user: user, holder: holder, opened: now, used: now, farewell: farewell)
        let stored = StoredSession(session, cookie: cookie)
        let isOpen = state.withLock { state in
            guard state.signIns.hasRoom(for: holder, below: Self.signInsPerMinute, at: now) else { return false }
            state.signIns.count(holder, at: now)
            state.put(stored, as: SecretDigest(of: cookie), now)
            return true
        }
        guard isOpen else { return nil }
        write(now)
        return cookie
    }

    /// Session of a cookie, which counts as used; nil for none.
    package func session(_ cookie: String) -> Session? {
        let (digest, now) = (SecretDigest(of: cookie), clock())
        let (stored, isDue) = state.withLock { state -> (StoredSession?, Bool) in
            guard var stored = state.sessions[digest] else { return (nil, false) }
            if stored.session.isOver(at: now) {
                state.sessions[digest] = nil
                return (nil, false)
            }
            stored.session.used = max(stored.session.used, now)
            state.sessions[digest] = stored
            let isDue = now >= state.written.advanced(by: Self.writesUseAfter)
            if isDue { state.written = now }
            return (stored, isDue)
        }
        // Callers are loops: they must not wait for the disk.
        if isDue { file?.writeLater { [self] in written(at: now) } }
        return stored?.opened(with: cookie)
    }

    private func write(_ now: Timestamp) { file?.write { written(at: now) } }

    private func written(at now: Timestamp) -> [SecretDigest: StoredSession] {
        state.withLock { state in
            state.written = max(state.written, now)
            return state.sessions
        }
    }

    /// The credential of a session that goes on; nil when it is over. That is no use of it: a stream that it opened
    /// may be all there is.
    package func held(_ cookie: String) -> Credentials? {
        let (digest, now) = (SecretDigest(of: cookie), clock())
        let stored = state.withLock { $0.sessions[digest] }
        return stored.flatMap { $0.session.isOver(at: now) ? nil : $0.opened(with: cookie)?.credentials }
    }

    /// - Returns: ``Session/farewell`` of the session.
    @discardableResult
    package func close(_ cookie: String) -> String? {
        let ended = state.withLock { $0.sessions.removeValue(forKey: SecretDigest(of: cookie)) }
        guard let ended else { return nil }
        write(clock())
        return ended.session.farewell
    }

    // MARK: Guessing

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
