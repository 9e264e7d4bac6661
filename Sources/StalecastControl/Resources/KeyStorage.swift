package import StalecastAccess
package import StalecastHTTP
import StalecastStore

/// Storage of API keys: this daemon's own, or what all nodes of a cluster share.
package protocol KeyStorage: Sendable {
    var isShared: Bool { get }

    /// Changes a key: durable before it counts, and it counts here when this returns.
    ///
    /// - Parameters:
    ///   - make: key as it shall be, from what is known; called again after another node's change. nil changes nothing.
    ///   - removing: ids of revoked keys that are forgotten with it.
    func change(
        _ make: @escaping @Sendable () -> AccessKey?, removing: @escaping @Sendable () -> [String]
    ) async throws(GoogleError) -> AccessKey?
}

/// Keys in the store of a daemon outside a cluster.
struct OwnKeys: KeyStorage {
    let store: TemplateStore
    let access: Authorizer

    let isShared = false

    func change(
        _ make: @escaping @Sendable () -> AccessKey?, removing: @escaping @Sendable () -> [String]
    ) async throws(GoogleError) -> AccessKey? {
        do {
            return try await store.storeKey(make) {
                ($0.id, $0.record)
            } removing: {
                removing()
            } committed: { key, removed in
                access.put(key)
                access.forget(removed)
            }
        } catch {
            throw OutcomeMapping().answer(to: error, commits: true, projectNumber: 0)
        }
    }
}
