import Foundation

/// A subscription to a ``LocalConfigServer``.
final class LocalConnection: UpdateConnection {
    private let server: LocalConfigServer
    private let id = UUID()
    private let version: Locked<Int64>
    private let onEvent: @Sendable (ConnectionEvent) -> Void

    init(server: LocalConfigServer, have: Int64?, onEvent: @escaping @Sendable (ConnectionEvent) -> Void) {
        self.server = server
        version = Locked(have ?? 0)
        self.onEvent = onEvent
    }

    func start() { server.subscribe(id, have: version.withLock { $0 }, onEvent: onEvent) }

    func stop() { server.unsubscribe(id) }

    func holds(version: Int64) { self.version.withLock { $0 = version } }

    func networkChanged() {}

    func enterBackground() { stop() }

    func enterForeground() { start() }
}
