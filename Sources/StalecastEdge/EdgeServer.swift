import CLinux
package import Logging
package import StalecastHTTP
package import StalecastHub
package import StalecastWire
import Synchronization

/// The public listener: engine and Front over one hub.
package final class EdgeServer: Sendable {
    /// Settings that are fixed while Edge runs.
    package struct Options: Sendable {
        /// An IP address; default loopback.
        package var host = "127.0.0.1"
        /// 0 takes a free port.
        package var port: UInt16 = 8080
        /// A socket that listens on that address already and outlives this process, in which connections wait while it
        /// restarts; nil, the default, opens one.
        package var listener: Int32?
        /// False serves every stream from the Front. Default true.
        package var usesStreamEngine = true
        /// Threads of each half; default one per core.
        package var threads = 1
        /// Whether each scope has a subscriber of our own: see ``Canaries``. Default false.
        package var hasCanaries = false
        /// nil, the default, listens without TLS.
        package var tls: TLSServer?
        /// Gate of a node of a cluster; nil, the default: this process has the newest version.
        package var freshness: (any FreshnessGate)?

        package init() {}
    }

    private let options: Options
    private let context: EdgeContext
    private let front: Front
    private let engine: StreamEngine?
    private let settings: Mutex<EdgeSettings>
    private let listener = Mutex<HTTPListener?>(nil)
    private let canaries: Canaries?

    /// Nice value of the Front's threads beside the engine's. A flood of the Front takes a core's time; with this
    /// the engine gets it first, and is done in milliseconds. 5 is a third of the engine's share.
    private static let frontNice: Int32 = 5

    private var hub: Hub { context.hub }
    private var ledger: AddressLedger { context.ledger }

    /// Opens the listening sockets of the engine; `start()` begins to serve.
    ///
    /// - Parameter served: what `:fetch` answers from; by default no project is known.
    package init(
        options: Options, settings: EdgeSettings, hub: Hub, served: ServedTemplates = ServedTemplates(),
        logger: Logger
    ) throws(EdgeError) {
        self.options = options
        let context = EdgeContext(
            hub: hub, served: served, tls: options.tls, freshness: options.freshness, logger: logger)
        self.context = context
        self.settings = Mutex(settings)
        let front = Front(
            threads: options.threads, nice: options.usesStreamEngine ? Self.frontNice : 0, context, settings: settings)
        self.front = front
        let engine =
            try options.usesStreamEngine
            ? StreamEngine(options, context, settings: settings, front: front) : nil
        self.engine = engine
        let seat: @Sendable (Scope, CanaryEnd) -> Void = { scope, end in
            if let engine { engine.postToNext(.canary(scope, end)) } else { front.seatCanary(end, of: scope) }
        }
        canaries =
            options.hasCanaries
            ? Canaries(
                loop: front.shards[0].loop, epoch: hub.head.epoch, seat: seat, fetch: { front.adoptCanary($0) }) : nil
    }

    /// Begins to serve.
    ///
    /// - Returns: the port really bound.
    package func start() async throws -> Int {
        if let canaries {
            // Before the loops, so that it knows what they are told.
            let board = hub.attach { if case .announcement(let announcement) = $0 { canaries.announced(announcement) } }
            for topic in board.topics where topic.latest != nil { canaries.begin(topic.scope) }
        }
        try await front.start(engine: engine)
        if let engine {
            engine.start()
            return Int(engine.port)
        }
        let listening = try await front.listen(host: options.host, port: options.port, handed: options.listener)
        listener.withLock { $0 = listening }
        return listening.port
    }

    package var accessMode: EdgeAccess.Mode { settings.withLock { $0.access.mode } }

    /// Changes what can be changed without a restart; streams stay up.
    package func apply(_ settings: EdgeSettings) {
        self.settings.withLock { $0 = settings }
        engine?.post(.settings(settings))
        front.apply(settings)
    }

    /// Changes the cap on connections, but not below those that are open: beyond the cap clients are told to come back,
    /// and far beyond it they would only wait.
    ///
    /// - Returns: the cap.
    package func limitConnections(to room: Int) -> Int {
        let changed = settings.withLock { settings in
            settings.caps.connections = max(1, room, ledger.total)
            return settings
        }
        apply(changed)
        return changed.caps.connections
    }

    /// Principals may have lost something: ends the streams that are not permitted any more.
    package func accessChanged() {
        engine?.post(.accessChanged)
        front.accessChanged()
    }

    /// Stops accepting and ends every stream cleanly, spread over `duration`, or over less where fewer have to be
    /// ended. Requests that have begun are answered. Returns when all connections are gone, at the latest after
    /// `duration`, or two seconds after the last stream was ended where that is later. Clients are told to stay away
    /// for as long as it takes, so it must not take longer than it needs.
    ///
    /// - Parameter each: with few connections the drain takes so long for each of them, and 200 ms.
    package func drain(over duration: Duration, each: Duration = .milliseconds(2)) async {
        let began = ContinuousClock.now
        let milliseconds = min(duration.milliseconds, 200 + each.milliseconds * ledger.total)
        await listener.withLock { $0 }?.close()
        front.drain(over: milliseconds)
        await drainEngine(over: milliseconds)
        let end = began + max(duration, .milliseconds(milliseconds) + .seconds(2))
        while await front.connectionCount() > 0, ContinuousClock.now < end {
            // Cancelled means the process is told to hurry: stop waiting.
            do { try await Task.sleep(for: .milliseconds(50)) } catch { break }
        }
    }

    private func drainEngine(over milliseconds: Int) async {
        guard let engine else { return }
        await withTaskGroup { group in
            for shard in engine.shards {
                group.addTask {
                    await withCheckedContinuation { done in
                        shard.post(.drain(milliseconds: milliseconds) { done.resume() })
                    }
                }
            }
        }
    }

    package func stop() async throws {
        engine?.post(.stop)
        try await front.stop()
    }

    // MARK: What it can tell

    package var tally: EdgeTally {
        var tally = EdgeTally()
        for gauges in gauges { tally.merge(gauges.lastTally) }
        return tally
    }

    private var gauges: [LoopGauges] { (engine?.shards ?? []).map(\.gauges) + front.shards.map(\.gauges) }

    /// Answers of all loops, each from its own thread; none of those that have stopped.
    private func answers<Answer: Sendable>(
        _ question: @escaping @Sendable (any Carrier) -> Answer
    ) async -> [Answer] {
        let engineAnswers = await engine?.answers { question($0) } ?? []
        return await front.answers { question($0) } + engineAnswers
    }

    /// Streams and held polls that the engine has, as of its last turn; the others are the Front's.
    package var engineSubscribers: Int {
        (engine?.shards ?? []).map(\.lastTally).reduce(0) { $0 + $1.streams + $1.polls }
    }

    /// Facts that our own subscribers saw of the newest versions; empty without them.
    package var observations: [Scope: Canaries.Observation] { canaries?.observations ?? [:] }

    /// Connections held now, of any kind.
    package var connections: Int { ledger.total }

    package func presence() async -> Presence {
        await answers { $0.audience.members.presence(on: $0.board) }.reduce(into: Presence()) { $0.merge($1) }
    }

    /// Counts of the streams that have a scope's newest message, as of now.
    package func streamCounts(of scope: Scope) async -> StreamCounts {
        await answers { $0.streamCounts(of: scope) }.reduce(into: StreamCounts()) { $0.merge($1) }
    }

    /// Contradictions in the books of Edge, as sentences; empty when all agree. For tests: connections change hands in
    /// between, so what does not agree at once may agree a moment later.
    package func inconsistencies() async -> [String] {
        let before = ledger.total
        let loops =
            await front.answers { ($0.gauges.name, $0.http.count, $0.inconsistencies()) }
            + (engine?.answers { ($0.gauges.name, $0.connectionCount, $0.inconsistencies()) } ?? [])
        let held = loops.reduce(0) { $0 + $1.1 }
        var problems = loops.flatMap { name, _, found in found.map { "\(name): \($0)" } }
        if before != held || ledger.total != held {
            problems.append("the ledger counts \(ledger.total) connections, the shards hold \(held)")
        }
        return problems
    }

    /// Names of the loops that have not turned for longer than `limit`; empty when all is well.
    package func stuckLoops(limit: Duration = .seconds(2)) -> [String] {
        let now = stalecast_monotonic_ns()
        let nanoseconds = limit.nanoseconds
        return gauges.filter { $0.lastTurn != 0 && now > $0.lastTurn + nanoseconds }.map(\.name)
    }
}

/// Parts that all loops of Edge share.
package struct EdgeContext: Sendable {
    let hub: Hub
    let served: ServedTemplates
    package let ledger = AddressLedger()
    /// nil: the listener speaks plain HTTP.
    let tls: TLSServer?
    /// Gate of a node of a cluster; nil: this process has the newest version.
    let freshness: (any FreshnessGate)?
    let logger: Logger

    package init(
        hub: Hub, served: ServedTemplates = ServedTemplates(), tls: TLSServer? = nil,
        freshness: (any FreshnessGate)? = nil, logger: Logger
    ) {
        (self.hub, self.served, self.tls, self.freshness, self.logger) = (hub, served, tls, freshness, logger)
    }
}
