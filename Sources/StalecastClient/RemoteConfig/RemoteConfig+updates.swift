import Foundation

extension RemoteConfig {
    /// Listens for new versions: opens the connection if it is the first listener, has each announced version fetched,
    /// and calls `listener` with the parameters that an activation would change. Call ``activate()`` to make them
    /// count. Versions that change nothing for this installation are silent.
    ///
    /// - Parameter listener: gets either an update or a ``RemoteConfigUpdateError``, never both; stays after errors.
    @discardableResult
    public func addOnConfigUpdateListener(
        remoteConfigUpdateCompletion listener: @escaping @Sendable (RemoteConfigUpdate?, (any Error)?) -> Void
    ) -> ConfigUpdateListenerRegistration {
        let id = UUID()
        let callbacks = app.callbacks
        keeper.state.withLock { state in
            state.listeners.updates[id] = { result in
                callbacks.run {
                    switch result {
                    case .success(let keys): listener(RemoteConfigUpdate(updatedKeys: keys), nil)
                    case .failure(let error): listener(nil, error)
                    }
                }
            }
        }
        app.listen(to: Set(app.options.topics), owner: id, namespace: keeper.namespace)
        keeper.catchUp()
        return ConfigUpdateListenerRegistration { [app, keeper] in
            // The closure ends outside the lock: what it owns may call the keeper in its `deinit`.
            _ = keeper.state.withLock { $0.listeners.updates.removeValue(forKey: id) }
            app.listen(to: [], owner: id, namespace: keeper.namespace)
        }
    }

    /// The updates as an asynchronous sequence; each iteration listens for itself.
    public var configUpdates: RemoteConfigUpdateSequence {
        RemoteConfigUpdateSequence { self.addOnConfigUpdateListener(remoteConfigUpdateCompletion: $0) }
    }

    /// Calls `listener` after each activation with the parameters whose values in force changed.
    @discardableResult
    public func addOnActivateListener(
        _ listener: @escaping @Sendable (Set<String>) -> Void
    ) -> ConfigUpdateListenerRegistration {
        let (id, callbacks) = (UUID(), app.callbacks)
        keeper.state.withLock { $0.listeners.activations[id] = { keys in callbacks.run { listener(keys) } } }
        return ConfigUpdateListenerRegistration { [keeper] in
            // The closure ends outside the lock, as above.
            _ = keeper.state.withLock { $0.listeners.activations.removeValue(forKey: id) }
        }
    }
}
