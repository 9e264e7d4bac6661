/// A subscription for as long as it is started: ``StaleConnection`` over the network, ``LocalConnection`` in the process.
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
