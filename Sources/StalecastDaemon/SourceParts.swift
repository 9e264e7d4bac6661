import Logging
import StalecastControl
import StalecastHub
import StalecastOutbound
import StalecastSources
import StalecastStore
import StalecastWire

/// Everything about sources that is made at start, before anything runs.
struct SourceParts: Sendable, CustomStringConvertible {
    let watchers: [SourceWatcher]
    let service: TriggerService
    let engine: OutboundEngine?
    private let feeds: [Scope: Configuration.Feed]
    private let places: [Scope: String]

    /// Headers may hold secrets: they are not printed.
    var description: String { "sources of \(places.count) scopes" }

    /// Reads keys and secrets; blocks on files.
    ///
    /// - Throws: ``StartError`` with what to do about it.
    init(
        _ configuration: Configuration, _ share: DescriptorBudget.Outbound, store: TemplateStore, _ audit: AuditLog,
        _ logger: Logger
    ) throws(StartError) {
        let factory = try SourceFactory(configuration, share)
        var watchers: [SourceWatcher] = []
        var targets: [TriggerService.Target] = []
        var credentials = TriggerCredentials()
        for feed in configuration.sources.scopes where feed.isFed {
            let made = try factory.make(feed)
            let watcher = SourceWatcher(
                feed.scope, source: made.source, isNumbered: feed.hasOriginNumbers, fence: made.fence, store: store,
                schedule: made.schedule
            ) { report in
                logger.log(report, of: feed.scope, kind: feed.kind)
                audit.write(report, of: feed.scope)
            }
            watchers.append(watcher)
            targets.append(TriggerService.Target(feed, watcher, configuration, store, try credentials.read(feed)))
        }
        self.watchers = watchers
        service = TriggerService(targets: targets)
        engine = factory.engine
        feeds = Dictionary(uniqueKeysWithValues: configuration.sources.scopes.map { ($0.scope, $0) })
        places = Dictionary(uniqueKeysWithValues: watchers.map { ($0.scope, $0.status.place) })
    }

    /// The words for the source of each scope that cannot be published to here.
    var words: [Scope: String] {
        feeds.filter { $0.value.isFed }.mapValues { "its \($0.kind.rawValue) source \(places[$0.scope] ?? "")" }
    }

    /// `full` or `notify`.
    func serving(of scope: Scope) -> String { (feeds[scope]?.serve ?? .full).rawValue }

    /// Scopes that are behind for longer than they may, as sentences.
    func unready() -> [String] {
        let now = ContinuousClock.now
        return watchers.compactMap { watcher in
            guard let most = feeds[watcher.scope]?.maxAge, most > .zero else { return nil }
            let status = watcher.status
            let age = status.age(at: now)
            guard age > most else { return nil }
            let cause = status.problem.map { ": \($0.description)" } ?? ""
            return "the source of \(watcher.scope) was last seen \(age.wholeSeconds) s ago, "
                + "more than maxAge (\(most.spelled))\(cause)"
        }
    }
}

extension Configuration {
    /// Scopes whose clients are served by their origin, with what to tell those that come here.
    var servedElsewhere: [Scope: String] {
        var sentences: [Scope: String] = [:]
        for feed in sources.scopes where feed.isFed && feed.serve == .notify {
            // Strangers read this: it does not say where the origin is.
            sentences[feed.scope] =
                "\(feed.scope) is not fetched here: this daemon only tells of its changes (serve: notify); fetch "
                + "it from its origin"
        }
        return sentences
    }

    /// Windows over which clients of scopes with a slow origin are asked to spread their fetches.
    var herdWindows: [Scope: HerdWindow] {
        Dictionary(
            uniqueKeysWithValues: sources.scopes.map { feed in
                let (least, most) = (feed.herd.least, feed.herd.most)
                return (
                    feed.scope,
                    HerdWindow(
                        budget: feed.herd.budget, least: least > 0 ? least : nil, most: most > 0 ? most : nil,
                        longest: feed.herd.longest)
                )
            })
    }
}

extension Duration {
    var wholeSeconds: Int64 { components.seconds }
}

extension AuditLog {
    /// A source's report as a line about its scope.
    fileprivate func write(_ report: SourceWatcher.Report, of scope: Scope) {
        var line: JSONObject = [
            "project": .string(scope.project.description), "namespace": .string(scope.namespace.description),
        ]
        switch report {
        case .adopted(let version, _):
            line["version"] = .string(String(version))
            write("source.adopt", line)
        case .problem(let problem):
            // A sentence about content may quote values, which the audit log must not have.
            let reason =
                problem.reason == .invalidContent
                ? "its content cannot be used; `stalecast sources` says why" : problem.description
            (line["outcome"], line["reason"]) = ("failed", .string(reason))
            write("source.read", line)
        case .recovered: write("source.recover", line)
        case .fenceTimeout: break
        }
    }
}

extension Logger {
    /// A source's report as a line of ours.
    func log(_ report: SourceWatcher.Report, of scope: Scope, kind: SourceKind) {
        var metadata: Logger.Metadata = ["scope": "\(scope)", "kind": "\(kind.rawValue)"]
        switch report {
        case .adopted(let version, let hasFenceTimedOut):
            metadata["version"] = "\(version)"
            if hasFenceTimedOut { metadata["fence"] = "timeout" }
            info("source has a new version", metadata: metadata)
        case .problem(let problem):
            metadata["reason"] = "\(problem.reason.rawValue)"
            metadata["error"] = "\(problem.description)"
            warning("source cannot be used", metadata: metadata)
        case .recovered(let failures):
            metadata["failures"] = "\(failures)"
            info("source is well again", metadata: metadata)
        case .fenceTimeout(let seen):
            metadata["seen"] = "\(seen)"
            warning("origin does not show its new version to clients", metadata: metadata)
        }
    }
}
