/// What a ``RemoteConfigClient`` tells of its work. The closures run on ``StalecastOptions/callbackQueue``.
public struct RemoteConfigEventListener: Sendable {
    let didUpdatePersistentStorage: @Sendable () -> Void
    let didCompleteNetworkRequest: @Sendable ((any Error)?) -> Void

    /// - Parameters:
    ///   - didUpdatePersistentStorage: new values are stored.
    ///   - didCompleteNetworkRequest: the server was asked; with a ``RemoteConfigError`` when that failed.
    public init(
        didUpdatePersistentStorage: @escaping @Sendable () -> Void = {},
        didCompleteNetworkRequest: @escaping @Sendable ((any Error)?) -> Void = { _ in }
    ) {
        self.didUpdatePersistentStorage = didUpdatePersistentStorage
        self.didCompleteNetworkRequest = didCompleteNetworkRequest
    }
}
