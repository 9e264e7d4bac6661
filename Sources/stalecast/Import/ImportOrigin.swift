import Foundation
import StalecastOutbound
import StalecastSources
import StalecastWire

struct ImportOrigin: Sendable {
    private let templates: FirebaseTemplates
    private let name: String

    /// Attempts of one request while the origin asks to wait.
    private static let attempts = 6
    /// The longest that the origin is waited for at once.
    private static let longestWait = Duration.seconds(120)
    private static let maxBodyBytes = 64 << 20

    /// - Parameters:
    ///   - base: nil for Google's.
    ///   - credentials: a file; nil for the one that the environment names.
    /// - Throws: ``CommandFailure`` for a base that is no URL and for credentials that cannot be used.
    init(base: String?, project: String, namespace: Namespace, credentials: String?) throws(CommandFailure) {
        name = "\(project)/\(namespace)"
        let environment = ProcessInfo.processInfo.environment
        guard let file = credentials ?? environment["GOOGLE_APPLICATION_CREDENTIALS"], !file.isEmpty else {
            throw CommandFailure(
                .tokenRefused, "an import needs credentials for \(project)",
                advice: "Name a service account's key file with --credentials FILE or GOOGLE_APPLICATION_CREDENTIALS; "
                    + "its role is Firebase Remote Config Viewer.")
        }
        do {
            let engine = try OutboundEngine(
                OutboundConfiguration(shelves: 1, threadName: "import"))
            var access = OriginAccess(
                engine: engine, policy: ServerAddress.anywhere, timeout: .seconds(60), maxBodyBytes: Self.maxBodyBytes)
            access.credential = try Self.credential(file, engine)
            templates = try FirebaseTemplates(
                base: base.map { $0.hasSuffix("/") ? String($0.dropLast()) : $0 } ?? FirebaseTemplates.defaultBase,
                project: project, namespace: namespace, access: access)
        } catch let error as OutboundURL.Invalid {
            throw CommandFailure(.usage, "--url \(error)")
        } catch {
            throw CommandFailure(.tokenRefused, "\(error)")
        }
    }

    /// A service account's key file is JSON; anything else is a token.
    private static func credential(_ file: String, _ engine: OutboundEngine) throws -> OriginAccess.Credential {
        let bytes = try LocalFile(path: file).bytes
        guard bytes.first(where: { $0 > 0x20 }) == UInt8(ascii: "{") else { return .file(BearerFile(path: file)) }
        let tokens = AccessTokens(
            account: try ServiceAccount(contentsOf: file), scope: FirebaseTemplates.oauthScope, engine: engine,
            policy: ServerAddress.anywhere)
        return .account(token: { try await tokens.token() }, refused: { tokens.invalidate() })
    }

    /// Everything said about the listed versions, oldest first.
    func versions() async throws(CommandFailure) -> [VersionMetadata] {
        try await patiently { () async throws(OriginProblem) -> [VersionMetadata] in try await templates.versions() }
    }

    func template(_ number: VersionNumber) async throws(CommandFailure) -> TemplateFile {
        let document = try await patiently { () async throws(OriginProblem) -> FirebaseTemplates.Document in
            try await templates.document(number)
        }
        return TemplateFile(document.json, named: "version \(number) of \(name)")
    }

    /// Google limits requests per minute: waits as long as it asks.
    private func patiently<Value: Sendable>(
        _ ask: () async throws(OriginProblem) -> Value
    ) async throws(CommandFailure) -> Value {
        var attempt = 1
        while true {
            do throws(OriginProblem) { return try await ask() } catch {
                guard error.reason == .throttled, attempt < Self.attempts else { throw failure(error) }
                let wait = min(error.retryAfter ?? .seconds(1 << attempt), Self.longestWait)
                StandardError.write("stalecast: \(error.description.printable); trying again in \(wait.inSeconds)\n")
                do { try await Task.sleep(for: wait) } catch { throw failure(OriginProblem(.timeout, "interrupted")) }
                attempt += 1
            }
        }
    }

    private func failure(_ problem: OriginProblem) -> CommandFailure {
        let status: ExitStatus =
            switch problem.reason {
            case .unreachable, .tls, .brokenAnswer: .unreachable
            case .timeout: .timedOut
            case .unauthorized: .tokenRefused
            case .notFound: .notFound
            default: .refused
            }
        return CommandFailure(
            status, "\(name) cannot be read: \(problem.description)",
            advice: problem.reason == .unauthorized
                ? "The account needs the role Firebase Remote Config Viewer in that project." : nil)
    }
}
