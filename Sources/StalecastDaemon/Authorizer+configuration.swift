import StalecastAccess

extension Authorizer {
    /// Takes what a configuration says, at start and at a reload.
    func configure(_ configuration: Configuration) {
        configure(
            keys: configuration.auth.keys, plain: configuration.edge.apiKeys.map(\.text),
            anonymous: configuration.auth.anonymous, issuers: configuration.auth.issuers,
            certificates: configuration.auth.certificates)
    }
}
