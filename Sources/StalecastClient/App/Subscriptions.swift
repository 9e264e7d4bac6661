import Foundation

/// The app's connections: one for all topics, or with Firebase's protocol one per namespace. They exist while a caller
/// wants to hear of something.
final class Subscriptions: Sendable {
    typealias EventHandler = @Sendable (_ namespace: String?, _ demand: Demand, _ event: ConnectionEvent) -> Void

    private struct Want: Sendable {
        var topics: Set<String>
        var namespace: String
    }

    private struct State: Sendable {
        var wants: [UUID: Want] = [:]
        /// Key: the namespace, or empty for the one connection of all topics.
        var connections: [String: (demand: Demand, connection: any UpdateConnection)] = [:]
        var isInBackground = false
        var isClosed = false
    }

    /// Topics and account for which a connection is made.
    struct Demand: Sendable, Equatable {
        var topics: Set<String> = []
        var namespaces: Set<String> = []
    }

    private let options: StalecastOptions
    private let installation: InstallationKeeper
    private let state = Locked(State())
    /// Connections are started and stopped here, in the order in which that was decided under the lock.
    private let queue = DispatchQueue(label: "stalecast.link")

    init(options: StalecastOptions, installation: InstallationKeeper) {
        self.options = options
        self.installation = installation
    }

    /// Opens, replaces or closes connections so that they carry what is wanted.
    func want(
        _ topics: Set<String>, owner: UUID, namespace: String, keepers: [ConfigKeeper], onEvent: @escaping EventHandler
    ) {
        let isFirebase = options.server != .stalecast
        state.withLock { state in
            guard !state.isClosed else { return }
            state.wants[owner] = topics.isEmpty ? nil : Want(topics: topics, namespace: namespace)
            var wanted: [String: Demand] = [:]
            for want in state.wants.values {
                let key = isFirebase ? want.namespace : ""
                wanted[key, default: Demand()].topics.formUnion(want.topics)
                wanted[key, default: Demand()].namespaces.insert(want.namespace)
            }
            // A connection names its topics once, so that another demand takes another connection.
            let ended = state.connections.filter { wanted[$0.key] != $0.value.demand }
            for key in ended.keys { state.connections[key] = nil }
            var started: [any UpdateConnection] = []
            for (key, demand) in wanted where state.connections[key] == nil {
                let connection = connection(key, demand, keepers, onEvent)
                state.connections[key] = (demand, connection)
                if state.isInBackground { connection.enterBackground() }
                started.append(connection)
            }
            turn(off: ended.values.map(\.connection), on: started)
        }
    }

    private func turn(off ended: [any UpdateConnection], on started: [any UpdateConnection]) {
        queue.async {
            for connection in ended { connection.stop() }
            for connection in started { connection.start() }
        }
    }

    /// Tells the connections what is held, for their next reconnect.
    func holds(_ keepers: some Collection<ConfigKeeper>) {
        guard let version = Self.have(keepers) else { return }
        forEachConnection { $0.holds(version: version) }
    }

    func forEachConnection(_ body: (any UpdateConnection) -> Void) {
        for connection in state.withLock({ $0.connections.values.map(\.connection) }) { body(connection) }
    }

    /// The app is suspended, or back: so are its connections, and those made meanwhile.
    func setBackground(_ isInBackground: Bool) {
        state.withLock { $0.isInBackground = isInBackground }
        forEachConnection { isInBackground ? $0.enterBackground() : $0.enterForeground() }
    }

    /// Whether there is a connection that will say something about a topic.
    func isConnecting(_ topic: String) -> Bool {
        state.withLock { state in
            !state.isInBackground && state.connections.values.contains { $0.demand.topics.contains(topic) }
        }
    }

    func close() {
        state.withLock { state in
            state.isClosed = true
            turn(off: state.connections.values.map(\.connection), on: [])
            state.connections = [:]
        }
    }

    private func connection(
        _ key: String, _ demand: Demand, _ keepers: [ConfigKeeper], _ onEvent: @escaping EventHandler
    ) -> any UpdateConnection {
        let concerned = keepers.filter { key.isEmpty || $0.namespace == key }
        let report: @Sendable (ConnectionEvent) -> Void = { onEvent(key.isEmpty ? nil : key, demand, $0) }
        if let server = options.transport as? LocalConfigServer {
            return LocalConnection(server: server, have: Self.have(concerned), onEvent: report)
        }
        var connection = options.connection
        connection.dialect = .stalecast
        connection.headers.merge(options.headers) { own, _ in own }
        connection.authorityFile = connection.authorityFile ?? options.authorityFile
        var endpoint = options.endpoint
        if case .firebase(let hosts) = options.server {
            endpoint = hosts.realtime
            connection.dialect = .firebase(streamRequest(namespace: key))
        }
        // The daemon counts listeners by this header; nothing else depends on it.
        if case .stalecast = connection.dialect, connection.headers["X-Stalecast-Client"] == nil {
            connection.headers["X-Stalecast-Client"] = installation.current.id
        }
        var target = StaleLink.Target(
            endpoint: endpoint, topics: demand.topics.sorted(), project: options.project,
            namespace: demand.namespaces.count == 1 ? demand.namespaces.first : nil, options: connection)
        if concerned.count == 1, let keeper = concerned.first {
            target.active = { [weak keeper] in keeper?.state.withLock { $0.stored.active?.version } }
        }
        return StaleConnection(
            target: target, have: Self.have(concerned), cursor: Self.cursor(concerned, demand.topics), onEvent: report)
    }

    private func streamRequest(namespace: String) -> FirebaseStreamRequest {
        let installation = installation
        return FirebaseStreamRequest(
            project: options.project, namespace: namespace, apiKey: options.apiKey ?? "", appID: options.appID,
            credentials: {
                let valid = try await installation.valid()
                return (valid.id, valid.token?.text ?? "stalecast")
            })
    }

    /// The lowest version held; 0 for none. A subscriber that holds a newer one gets some messages again and ignores
    /// them.
    private static func have(_ keepers: some Collection<ConfigKeeper>) -> Int64? {
        keepers.map { keeper in keeper.state.withLock { $0.fetchedVersion } }.min()
    }

    /// Cursor to resume from. It is used only with a single namespace, whose messages it stands for, and only with the
    /// topics it was made with. It wins over the version held; unlike that it shows whether the server's store was
    /// replaced.
    private static func cursor(_ keepers: [ConfigKeeper], _ topics: Set<String>) -> String? {
        guard keepers.count == 1, let keeper = keepers.first else { return nil }
        return keeper.state.withLock { state in
            state.stored.fetched == nil || Set(state.stored.cursorTopics) != topics ? nil : state.stored.cursor
        }
    }
}
