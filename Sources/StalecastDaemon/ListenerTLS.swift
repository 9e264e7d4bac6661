import Foundation
import Logging
import NIOSSL
import StalecastHTTP
import StalecastOutbound
import StalecastWire
import Synchronization

/// The files of one listener's TLS, read at one time.
struct TLSFiles {
    let material: TLSServer.Material
    /// Warnings for the operator, sentences.
    let warnings: [String]
    /// Identities of the files, which show that one of them is another file since.
    let identities: [LocalFile.Identity?]

    /// - Throws: ``TLSProblem``, a sentence that names the file.
    init(_ tls: Configuration.TLS, now: Int = Int(Date().timeIntervalSince1970)) throws(TLSProblem) {
        identities = Self.identities(tls)
        var found: [TLSIdentity] = []
        var warnings: [String] = []
        for pair in tls.pairs {
            let identity = try TLSIdentity(
                certificate: Self.bytes(pair.certificate), name: pair.certificate, key: Self.bytes(pair.key),
                keyName: pair.key)
            found.append(identity)
            if let warning = identity.warning(at: now) { warnings.append(warning) }
            if let warning = Self.warning(ofReaders: pair.key) { warnings.append(warning) }
        }
        var material = TLSServer.Material(found)
        if let path = tls.clientAuthorities {
            material.clientAuthorities = try TLSIdentity.certificates(Self.bytes(path), path)
            material.requiresClientCertificate = tls.requireClientCertificate
        }
        self.material = material
        self.warnings = warnings
    }

    /// Identities of the files to which the paths lead now, through whatever links.
    static func identities(_ tls: Configuration.TLS) -> [LocalFile.Identity?] {
        let paths = tls.pairs.flatMap { [$0.certificate, $0.key] } + [tls.clientAuthorities].compactMap(\.self)
        return paths.map { LocalFile.Identity(path: $0) }
    }

    private static func bytes(_ path: String) throws(TLSProblem) -> [UInt8] {
        do { return try LocalFile(path: path).bytes } catch {
            throw TLSProblem("\(error)")
        }
    }

    private static func warning(ofReaders key: String) -> String? {
        var status = stat()
        guard stat(key, &status) == 0, status.st_mode & 0o007 != 0 else { return nil }
        return "\(key) is open to every user of this machine: chmod o= \(key)"
    }
}

/// Keeps one listener's TLS in step with its files.
final class ListenerTLS: Sendable {
    private struct State {
        /// Identities at the last attempt to read the files, whatever its outcome.
        var known: [LocalFile.Identity?]
        /// Identities at the last look.
        var seen: [LocalFile.Identity?]
        /// Begin of the new certificates' validity, in seconds since 1970; nil when that was no reason to leave them.
        var due: Int?
        var warned: Set<String> = []
        /// Outcome of the last attempt to read the files; nil when all of them are in force.
        var refusal: Refusal?
    }

    /// Reason why the newest files are not in force.
    private struct Refusal {
        /// Seconds since 1970.
        let time: Int
        /// Sentence that names the file.
        let problem: String
    }

    /// `edge` or `control`.
    let listener: String
    let server: TLSServer
    private let files: Configuration.TLS
    private let logger: Logger
    private let state: Mutex<State>

    /// nil for a listener without TLS.
    ///
    /// - Throws: ``TLSProblem``.
    init?(_ listener: String, _ tls: Configuration.TLS, isTLS13Only: Bool, _ logger: Logger) throws(TLSProblem) {
        guard !tls.pairs.isEmpty else { return nil }
        let read = try TLSFiles(tls)
        var material = read.material
        material.isTLS13Only = isTLS13Only
        server = try TLSServer(material)
        self.listener = listener
        self.logger = logger
        files = tls
        state = Mutex(State(known: read.identities, seen: read.identities))
        warn(read.warnings)
    }

    /// Reads changed files once they have stayed the same for two checks, because a renewal writes two files one after
    /// the other. Certificates that were not valid yet are read again when they are.
    func check() {
        let (now, seconds) = (TLSFiles.identities(files), Int(Date().timeIntervalSince1970))
        let isDue = state.withLock { state in
            defer { state.seen = now }
            return now == state.seen && (now != state.known || state.due.map { seconds >= $0 } ?? false)
        }
        if isDue { reload() }
    }

    /// Reads the files now; what is wrong with them is logged, and the old certificates stay.
    func reload() {
        let now = Int(Date().timeIntervalSince1970)
        var refusal: String?
        do {
            state.withLock { state in
                state.known = TLSFiles.identities(files)
                state.due = nil
            }
            refusal = try replaceCertificates(at: now)
        } catch {
            refusal = "\(error)"
            logger.error(
                "certificates not replaced, the old ones stay",
                metadata: ["listener": "\(listener)", "error": "\(error)"])
        }
        state.withLock { $0.refusal = refusal.map { Refusal(time: now, problem: $0) } }
    }

    /// - Returns: why a certificate was left out, a sentence; nil when none was.
    private func replaceCertificates(at now: Int) throws -> String? {
        let read = try TLSFiles(files, now: now)
        var material = read.material
        let before = server.material
        let (identities, refusal) = better(material.identities, than: before.identities, at: now)
        material.identities = identities
        // Files say nothing of it: without this line a reload would let TLS 1.2 in at Control.
        material.isTLS13Only = before.isTLS13Only
        warn(read.warnings)
        guard
            material.identities.map(\.chain) != before.identities.map(\.chain)
                || material.clientAuthorities != before.clientAuthorities
        else { return refusal }
        try server.replace(material)
        logger.notice("certificates replaced", metadata: metadata(material.identities[0]))
        if !Set(before.clientAuthorities).isSubset(of: material.clientAuthorities) {
            logger.warning(
                "a client authority was removed; clients that it let in stay until their connection or the daemon ends",
                metadata: ["listener": "\(listener)"])
        }
        return refusal
    }

    /// The new ones; where one that is valid would be replaced by one that is not, the old one, until the new one is.
    private func better(
        _ new: [TLSIdentity], than old: [TLSIdentity], at now: Int
    ) -> (identities: [TLSIdentity], refusal: String?) {
        var identities = new
        var refusal: String?
        for (index, (one, former)) in zip(new, old).enumerated() where !one.isValid(at: now) && former.isValid(at: now)
        {
            identities[index] = former
            if one.term.notBefore > now { state.withLock { $0.due = min($0.due ?? .max, one.term.notBefore) } }
            let problem = one.warning(at: now) ?? "\(one.name) is not valid"
            refusal = refusal ?? problem
            logger.error(
                "a certificate not replaced, the old one stays",
                metadata: ["listener": "\(listener)", "error": "\(problem)"])
        }
        return (identities, refusal)
    }

    /// Says what is not well with the certificates in force, each thing once a day.
    func remind() {
        let now = Int(Date().timeIntervalSince1970)
        state.withLock { $0.warned = [] }
        warn(server.material.identities.compactMap { $0.warning(at: now) })
    }

    /// Sentences about certificates in force that clients refuse: expired, or not valid yet.
    func invalid(at now: Int = Int(Date().timeIntervalSince1970)) -> [String] {
        server.material.identities.filter { !$0.isValid(at: now) }.map {
            $0.warning(at: now) ?? "\($0.name) is not valid"
        }
    }

    /// Sentences about newer files that were refused; their problem is for `/status`, because it names paths.
    var refused: [String] {
        guard let refusal = state.withLock({ $0.refusal }) else { return [] }
        // An end that has passed is said by ``invalid(at:)``.
        let (end, now) = (server.material.identities.map(\.term.notAfter).min() ?? 0, Int(Date().timeIntervalSince1970))
        return [
            "the newest certificate files of \(listener) were refused at \(Self.time(refusal.time)), and those before them "
                + "stay in use\(end > now ? ", until \(Self.time(end))" : "")"
        ]
    }

    /// False while newer files are refused.
    fileprivate var hasNewest: Bool { state.withLock { $0.refusal == nil } }

    private func warn(_ sentences: [String]) {
        for sentence in sentences where state.withLock({ $0.warned.insert(sentence).inserted }) {
            logger.warning("certificate", metadata: ["listener": "\(listener)", "finding": "\(sentence)"])
        }
    }

    private func metadata(_ identity: TLSIdentity) -> Logger.Metadata {
        [
            "listener": "\(listener)", "certificate": "\(identity.name)",
            "notAfter": "\(Self.time(identity.term.notAfter))",
        ]
    }

    private static func time(_ seconds: Int) -> Timestamp {
        Timestamp(microseconds: Int64(clamping: seconds).multipliedReportingOverflow(by: 1_000_000).partialValue)
    }

    /// JSON for `/status`: one object for each certificate; `refused` says that newer files of its listener were.
    func json() -> [JSONValue] {
        let now = Int(Date().timeIntervalSince1970)
        let refused = state.withLock { $0.refusal }.map { refusal -> JSONValue in
            ["time": .string(Self.time(refusal.time).description), "problem": .string(refusal.problem)]
        }
        return server.material.identities.map { identity in
            let left = identity.term.notAfter - now
            return [
                "listener": .string(listener), "certificate": .string(identity.name),
                "names": .texts(identity.dnsNames),
                "notAfter": .string(Self.time(identity.term.notAfter).description),
                // Below 0 from the first second after its end.
                "daysLeft": .int(left / 86_400 - (left < 0 ? 1 : 0)), "refused": refused,
            ]
        }
    }
}

extension TLSIdentity {
    /// The whole chain, at that second since 1970.
    fileprivate func isValid(at now: Int) -> Bool {
        if case .invalid = term.judgement(at: now) { false } else { true }
    }
}

extension MetricsText {
    /// Writes when certificates expire, whether the newest files are in force, and the counts of handshakes.
    mutating func tls(_ listeners: [ListenerTLS]) {
        family(
            "stalecast_tls_certificate_not_after_seconds",
            "When the first certificate of the chain expires, since the epoch.",
            listeners.flatMap { tls in
                tls.server.material.identities.map {
                    ([("listener", tls.listener), ("certificate", $0.name)], Double($0.term.notAfter))
                }
            })
        family(
            "stalecast_tls_last_reload_successful",
            "0 while the newest certificate files were refused and those before them stay.",
            listeners.map { ([("listener", $0.listener)], $0.hasNewest ? 1 : 0) })
        family(
            "stalecast_tls_handshakes_total", "Connections of TLS listeners, by how they began.",
            listeners.flatMap { tls in
                let outcomes = tls.server.outcomes
                return TLSServer.Outcome.allCases.map {
                    ([("listener", tls.listener), ("outcome", $0.rawValue)], Double(outcomes[$0] ?? 0))
                }
            })
    }
}
