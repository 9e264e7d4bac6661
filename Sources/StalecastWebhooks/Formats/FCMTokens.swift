import StalecastOutbound
import StalecastWire
import Synchronization

/// The access tokens of webhooks of format `fcm`: one account's token serves all webhooks that name its key file.
final class FCMTokens: Sendable {
    private let engine: OutboundEngine
    private let accounts = Mutex<[Account: AccessTokens]>([:])

    private static let mostAccounts = 1024

    /// Tokens are fetched under the address policy of who needs them.
    private struct Account: Hashable {
        let keyFile: String
        let tokenURL: OutboundURL?
        let policy: AddressPolicy

        /// Nil for a webhook without a key file.
        init?(_ webhook: Webhook, _ policy: AddressPolicy) {
            guard let keyFile = webhook.settings.serviceAccountFile else { return nil }
            (self.keyFile, tokenURL, self.policy) = (keyFile, webhook.settings.tokenURL, policy)
        }
    }

    enum Authorization {
        case header(OutboundHeader)
        /// Fetches a token; then ask again.
        case needed(@Sendable () async throws(AttemptProblem) -> Void)
    }

    init(engine: OutboundEngine) { self.engine = engine }

    /// - Throws: ``AttemptProblem/Reason/token`` for a webhook without settings or with an unusable key file.
    func authorization(of webhook: Webhook, _ policy: AddressPolicy) throws(AttemptProblem) -> Authorization {
        guard let account = Account(webhook, policy) else {
            throw AttemptProblem(.token, "the webhook names no service account's key file")
        }
        let tokens = try tokens(account)
        if let token = tokens.current { return .header(Self.header(token)) }
        return .needed { () async throws(AttemptProblem) in
            do {
                _ = try await tokens.token()
            } catch {
                // The key file may be replaced meanwhile.
                self.forget(account)
                throw AttemptProblem(.token, "no access token for FCM: \(error)")
            }
        }
    }

    /// The receiver refused the request's token, which may have been replaced meanwhile.
    func refused(_ request: OutboundRequest, _ webhook: Webhook, _ policy: AddressPolicy) {
        guard let account = Account(webhook, policy), let token = accounts.withLock({ $0[account] })?.current,
            request.headers.contains(Self.header(token))
        else { return }
        forget(account)
    }

    private static func header(_ token: String) -> OutboundHeader {
        OutboundHeader(trusted: "authorization", "Bearer \(token)")
    }

    private func forget(_ account: Account) { accounts.withLock { $0[account] = nil } }

    private func tokens(_ account: Account) throws(AttemptProblem) -> AccessTokens {
        if let known = accounts.withLock({ $0[account] }) { return known }
        do {
            let key = try ServiceAccount(contentsOf: account.keyFile)
            let tokens = AccessTokens(
                account: key, scope: FCMMessage.scope, tokenURL: account.tokenURL, engine: engine,
                policy: account.policy)
            accounts.withLock { accounts in
                // Tokens without a value go first, then all: webhooks come and go, and another token is soon fetched.
                if accounts.count >= Self.mostAccounts { accounts = accounts.filter { $1.current != nil } }
                if accounts.count >= Self.mostAccounts { accounts = [:] }
                accounts[account] = tokens
            }
            return tokens
        } catch {
            throw AttemptProblem(.token, "the service account's key cannot be used: \(error)")
        }
    }
}
