import Dispatch
import Logging
import ServiceLifecycle
import StalecastAccess
import StalecastOutbound
import StalecastSources
import Synchronization

/// Keeps the key sets of `auth.issuers`: reads files and asks URLs when ``TokenVerifier/due()`` says so.
final class KeySetKeeper: Sendable {
    private let access: Authorizer
    let policy: AddressPolicy
    private let share: DescriptorBudget.Outbound
    private let logger: Logger
    private let state = Mutex(State())
    /// A file system that hangs must not take a thread that all share.
    private let files = DispatchQueue(label: "stalecast.issuers.files")

    private struct State {
        /// A thread that exists once a URL is to be asked.
        var engine: OutboundEngine?
        var isReading = false
        /// Text that was logged last about each issuer.
        var said: [String: String] = [:]
    }

    init(
        _ configuration: Configuration, _ access: Authorizer, _ share: DescriptorBudget.Outbound, _ logger: Logger
    ) {
        (self.access, self.share, self.logger) = (access, share, logger)
        policy = AddressPolicy(allow: configuration.auth.allowedAddresses)
    }

    /// Reads the files that are due; blocks.
    func readFiles() { access.tokens.due { !$0.keys.isURL }.forEach(read) }

    /// Runs until cancelled. Looks twice a second: a token with a new key waits for no longer.
    func run() async {
        await withDiscardingTaskGroup { group in
            fetchDue(&group)
            let ticks = AsyncTimer(period: .milliseconds(500)).cancelOnGracefulShutdown()
            for await _ in ticks { fetchDue(&group) }
            // The answers of requests under way are not needed.
            group.cancelAll()
        }
        await state.withLock { $0.engine }?.shutdown(grace: EndingStages.requests)
    }

    private func fetchDue(_ group: inout DiscardingTaskGroup) {
        let isFree = state.withLock { state in
            defer { state.isReading = true }
            return !state.isReading
        }
        if isFree {
            files.async {
                self.readFiles()
                self.state.withLock { $0.isReading = false }
            }
        }
        for issuer in access.tokens.due(\.keys.isURL) { group.addTask { await self.ask(issuer) } }
    }

    private func read(_ issuer: TokenIssuer) {
        do {
            let file = try LocalFile(path: issuer.keys.location, maxBytes: KeySet.maxBytes)
            take(try KeySet(file.bytes, for: issuer.algorithms), age: nil, issuer)
        } catch {
            failed(issuer, "\(error)")
        }
    }

    private func ask(_ issuer: TokenIssuer) async {
        do {
            let request = try await withCheckedThrowingContinuation { made in
                files.async { made.resume(with: Result { try self.request(issuer) }) }
            }
            switch await (try engine()).send(request).result {
            case .failed(let failure): failed(issuer, failure.description)
            // Redirects are not followed: the URL is the configuration's.
            case .answered(let status, _, _, _) where status != 200: failed(issuer, "it was answered \(status)")
            case .answered(_, let headers, let body, _):
                take(
                    try KeySet(body, for: issuer.algorithms), age: headers["cache-control"].flatMap(Self.maxAge), issuer
                )
            }
        } catch {
            failed(issuer, "\(error)")
        }
    }

    private func request(_ issuer: TokenIssuer) throws -> OutboundRequest {
        var headers = [OutboundHeader(trusted: "accept", "application/json, application/jwk-set+json")]
        if let file = issuer.keys.tokenFile {
            headers.append(try OutboundHeader("authorization", "Bearer \(try BearerFile(path: file).token())"))
        }
        return OutboundRequest(
            url: try OutboundURL(issuer.keys.location), headers: headers,
            limits: OutboundLimits(timeout: .seconds(10), maxBodyBytes: KeySet.maxBytes, overflow: .fail),
            policy: policy, tls: issuer.keys.caFile.map { OutboundTLS(caFile: $0) }, keptHeaders: ["cache-control"])
    }

    /// Makes requests to issuers; ended with ``run()``.
    func engine() throws -> OutboundEngine {
        try state.withLock { state in
            if let engine = state.engine { return engine }
            // A reload may bring the first issuer that has a URL, when the share is 0.
            let engine = try OutboundEngine(share.engine(threadName: "issuers"))
            state.engine = engine
            return engine
        }
    }

    /// Value of `max-age` in `Cache-Control`; nil without one.
    static func maxAge(_ field: String) -> Duration? {
        for part in field.split(separator: ",") {
            let words = part.trimming(while: \.isWhitespace).lowercased().split(separator: "=")
            guard words.count == 2, words[0] == "max-age", let seconds = Int64(words[1]) else { continue }
            return .seconds(min(max(0, seconds), 86_400))
        }
        return nil
    }

    // MARK: Said once

    private func take(_ keys: KeySet, age: Duration?, _ issuer: TokenIssuer) {
        access.fetched(keys, age: age, of: issuer)
        guard isNews("\(keys.keys.count), \(keys.skipped)", issuer) else { return }
        logger.info(
            "key set of an issuer",
            metadata: [
                "issuer": "\(issuer.name)", "keys": "\(keys.keys.count)", "skipped": "\(keys.skipped)",
            ])
    }

    private func failed(_ issuer: TokenIssuer, _ reason: String) {
        access.failed(reason, of: issuer)
        guard isNews(reason, issuer) else { return }
        logger.warning(
            "key set of an issuer cannot be used", metadata: ["issuer": "\(issuer.name)", "error": "\(reason)"])
    }

    private func isNews(_ words: String, _ issuer: TokenIssuer) -> Bool {
        state.withLock { $0.said.updateValue(words, forKey: issuer.name) != words }
    }
}
