import Foundation

/// A subscription to a ``LocalConfigServer``.
final class LocalConnection: UpdateConnection {
    private let server: LocalConfigServer
    private let id = UUID()
    private let version: Locked<Int64>
    private let standing = Locked((isStarted: false, isInBackground: false))
    private let onEvent: @Sendable (ConnectionEvent) -> Void

    init(server: LocalConfigServer, have: Int64?, onEvent: @escaping @Sendable (ConnectionEvent) -> Void) {
        self.server = server
        version = Locked(have ?? 0)
        self.onEvent = onEvent
    }

    func start() { stand { $0.isStarted = true } }

    func stop() { stand { $0.isStarted = false } }

    func holds(version: Int64) { self.version.withLock { $0 = version } }

    func networkChanged() {}

    func enterBackground() { stand { $0.isInBackground = true } }

    func enterForeground() { stand { $0.isInBackground = false } }

    private func stand(_ change: (inout (isStarted: Bool, isInBackground: Bool)) -> Void) {
        let isOpen = standing.withLock { standing in
            change(&standing)
            return standing.isStarted && !standing.isInBackground
        }
        if isOpen {
            server.subscribe(id, have: version.withLock { $0 }, onEvent: onEvent)
        } else {
            server.unsubscribe(id)
        }
    }
}

/// A subscription for as long as it is started: ``StaleConnection`` over the network, ``LocalConnection`` in the
/// process.
protocol UpdateConnection: Sendable {
    func start()
    func stop()
    /// The version that is held now.
    func holds(version: Int64)
    func networkChanged()
    func enterBackground()
    func enterForeground()
}

extension StaleConnection: UpdateConnection {}
