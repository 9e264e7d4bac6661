import Logging
import ServiceLifecycle
import StalecastAccess
import StalecastOutbound
import Synchronization

/// Asks the user's backend for ``CallerHook``: a GET with the headers that are allow-listed, for a second.
final class HookAsker: Sendable {
    private let engine: OutboundEngine
    private let request: OutboundRequest
    private let logger: Logger
    /// Text that was logged last.
    private let said = Mutex("")

    private static let timeout: Duration = .seconds(1)
    private static let maxBodyBytes = 64 * 1024

    /// Registers itself with `access`; nil when the configuration has no hook.
    init?(
        _ configuration: Configuration, _ access: Authorizer, _ share: DescriptorBudget.Outbound, _ logger: Logger
    ) throws {
        let hook = configuration.auth.hook
        guard let url = hook.url else { return nil }
        request = OutboundRequest(
            url: try OutboundURL(url), headers: [OutboundHeader(trusted: "accept", "application/json")],
            limits: OutboundLimits(
                connectTimeout: Self.timeout, timeout: Self.timeout, maxBodyBytes: Self.maxBodyBytes, overflow: .fail),
            policy: AddressPolicy(allow: configuration.auth.allowedAddresses),
            tls: hook.caFile.map { OutboundTLS(caFile: $0) })
        engine = try OutboundEngine(share.engine(threadName: "hook"))
        self.logger = logger
        access.hook.configure(names: hook.headers) { [self] in ask($0, $1) }
    }

    /// Runs until the daemon is told to end.
    func run() async {
        try? await gracefulShutdown()  // cancelled means the same
        await engine.shutdown(grace: EndingStages.requests)
    }

    private func ask(_ question: CallerHook.Question, _ done: @escaping @Sendable (CallerHook.Reply?) -> Void) {
        var request = request
        do {
            for header in question.headers { request.headers.append(try OutboundHeader(header.name, header.value)) }
        } catch {
            // What cannot be said is not asked; the same as a no.
            return done(CallerHook.Reply(status: 401, body: []))
        }
        engine.submit(request) { [self] outcome in
            switch outcome.result {
            case .failed(let failure):
                say(failure.description)
                done(nil)
            case .answered(let status, _, let body, _):
                say([200, 401, 403].contains(status) ? "" : "it answered \(status)")
                done(CallerHook.Reply(status: status, body: body))
            }
        }
    }

    /// Logs a problem when it changes; an empty one is an answer.
    private func say(_ problem: String) {
        let isNews = said.withLock { said in
            defer { said = problem }
            return said != problem
        }
        guard isNews else { return }
        if problem.isEmpty {
            logger.info("the auth hook answers")
        } else {
            logger.warning("the auth hook does not answer", metadata: ["error": "\(problem)"])
        }
    }
}
