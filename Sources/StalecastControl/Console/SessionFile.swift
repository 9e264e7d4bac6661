import Crypto
import Foundation
import StalecastAccess
import StalecastWire
import Synchronization

/// Session of the console as it is stored. Its credential is sealed with a key that is derived from the cookie, which
/// only the browser has: neither this memory nor the file opens anything.
struct StoredSession: Sendable {
    /// Session; it has no credential where that is sealed.
    var session: ConsoleSessions.Session
    /// The `Authorization` header; nil for other credentials, which stay in memory and end with the process.
    private let sealed: [UInt8]?

    init(_ session: ConsoleSessions.Session, cookie: String) {
        var header = Credentials()
        header.authorization = session.credentials.authorization
        var sealed: [UInt8]?
        if let text = header.authorization, header == session.credentials,
            // Fails only without memory: the session then ends with the process.
            let box = try? AES.GCM.seal(Data(text.utf8), using: Self.key(of: cookie))
        {
            sealed = box.combined.map(Array.init)
        }
        self.session = session
        self.sealed = sealed
        if sealed != nil { self.session.credentials = Credentials() }
    }

    /// - Returns: the session with its credential; nil when the file was changed by others.
    func opened(with cookie: String) -> ConsoleSessions.Session? {
        guard let sealed else { return session }
        // Another cookie, or a changed file: nothing to open.
        guard let box = try? AES.GCM.SealedBox(combined: sealed),
            let text = try? AES.GCM.open(box, using: Self.key(of: cookie))
        else { return nil }
        var session = session
        session.credentials.authorization = String(decoding: text, as: UTF8.self)
        return session
    }

    /// The digest that a cookie is looked up by says nothing of this key.
    private static func key(of cookie: String) -> SymmetricKey {
        HKDF<SHA256>.deriveKey(
            inputKeyMaterial: SymmetricKey(data: Data(cookie.utf8)), info: Data("stalecast console session".utf8),
            outputByteCount: 32)
    }

    /// nil for one that ends with the process.
    fileprivate var json: JSONObject? {
        guard let sealed else { return nil }
        return [
            "user": .string(session.user), "holder": .string(session.holder),
            "opened": .string(String(session.opened.microseconds)), "used": .string(String(session.used.microseconds)),
            "sealed": .string(Base64URL.encode(sealed)),
        ]
    }

    fileprivate init?(_ json: JSONObject) {
        guard let user = json["user"]?.string, let holder = json["holder"]?.string,
            let opened = json["opened"]?.string.flatMap({ Int64($0) }),
            let used = json["used"]?.string.flatMap({ Int64($0) }),
            let sealed = json["sealed"]?.string.flatMap({ Base64URL.decode($0.utf8) })
        else { return nil }
        session = ConsoleSessions.Session(
            credentials: Credentials(), user: user, holder: holder, opened: Timestamp(microseconds: opened),
            used: Timestamp(microseconds: used))
        self.sealed = Array(sealed)
    }
}

/// File with the sessions of the console, so that a restart of the daemon does not sign people out. It is replaced at
/// each sign-in and sign-out. After a loss of power it may be old or empty: the last sign-out may not count, or people
/// sign in again.
package final class SessionFile: Sendable {
    private let path: String
    private let report: @Sendable (String) -> Void
    /// Writes one state after the other; each is read when its turn comes, so the newest is written last.
    private let queue = DispatchQueue(label: "stalecast.console.sessions")
    private let hasFailed = Atomic(false)

    /// - Parameter report: hears when the file cannot be written any more, once until it can be again. Any thread.
    package init(directory: String, report: @escaping @Sendable (String) -> Void = { _ in }) {
        path = "\(directory)/console-sessions.json"
        self.report = report
    }

    /// - Returns: nothing for a file that is missing or damaged; people sign in again then.
    func read() -> [SecretDigest: StoredSession] {
        guard let data = FileManager.default.contents(atPath: path),
            let object = JSONValue.ifValid(Array(data), maxDepth: 4)?.object
        else { return [:] }
        var sessions: [SecretDigest: StoredSession] = [:]
        for (name, value) in object.members {
            guard let digest = SecretDigest(hexadecimal: name), let json = value.object else { continue }
            sessions[digest] = StoredSession(json)
        }
        return sessions
    }

    /// Replaces the file before it returns.
    func write(_ sessions: @Sendable () -> [SecretDigest: StoredSession]) { queue.sync { replace(sessions()) } }

    /// Replaces the file soon, for a caller that must not wait for a disk.
    func writeLater(_ sessions: @escaping @Sendable () -> [SecretDigest: StoredSession]) {
        queue.async { [self] in replace(sessions()) }
    }

    /// A file that cannot be written is removed: a session that was ended must not come back.
    private func replace(_ sessions: [SecretDigest: StoredSession]) {
        var object: JSONObject = [:]
        for (digest, stored) in sessions { object[digest.hexadecimal] = stored.json.map(JSONValue.object) }
        let error = WholeFile.replace(path, with: JSONValue.object(object).encoded(), through: path + ".next")
        let wasFailing = hasFailed.exchange(error != 0, ordering: .relaxed)
        if error == 0 { return }
        unlink(path)
        if !wasFailing { report("\(path): \(String(cString: strerror(error)))") }
    }
}
