import StalecastOutbound
import StalecastWire
import Synchronization

/// The access tokens of webhooks of format `fcm`: one account's token serves all webhooks that name its key file.
final class FCMTokens: Sendable {
    private let engine: OutboundEngine
    private let accounts = Mutex<[Account: AccessTokens]>([:])

    /// Tokens are fetched under the address policy of who needs them.
    private struct Account: Hashable {
        let settings: FCMSettings
        let profile: AddressPolicy.Profile
    }

    enum Authorization {
        case header(OutboundHeader)
        /// Fetches a token; then ask again.
        case needed(@Sendable () async throws(AttemptProblem) -> Void)
    }

    init(engine: OutboundEngine) { self.engine = engine }

    /// - Throws: ``AttemptProblem/Reason/token`` for a webhook without settings or with an unusable key file.
    func authorization(of webhook: Webhook, _ policy: AddressPolicy) throws(AttemptProblem) -> Authorization {
        guard let settings = webhook.fcm else {
            throw AttemptProblem(.token, "the webhook names no service account's key file")
        }
        let account = Account(settings: settings, profile: webhook.profile)
        let tokens = try tokens(account, policy)
        if let token = tokens.current { return .header(OutboundHeader(trusted: "authorization", "Bearer \(token)")) }
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

    /// The receiver refused the token.
    func forget(_ webhook: Webhook) {
        guard let settings = webhook.fcm else { return }
        forget(Account(settings: settings, profile: webhook.profile))
    }

    private func forget(_ account: Account) { accounts.withLock { $0[account] = nil } }

    private func tokens(_ account: Account, _ policy: AddressPolicy) throws(AttemptProblem) -> AccessTokens {
        if let known = accounts.withLock({ $0[account] }) { return known }
        do {
            let key = try ServiceAccount(contentsOf: account.settings.serviceAccountFile)
            let tokens = AccessTokens(
                account: key, scope: FCMMessage.scope, tokenURL: account.settings.tokenURL, engine: engine,
                policy: policy)
            accounts.withLock { $0[account] = tokens }
            return tokens
        } catch {
            throw AttemptProblem(.token, "the service account's key cannot be used: \(error)")
        }
    }
}
