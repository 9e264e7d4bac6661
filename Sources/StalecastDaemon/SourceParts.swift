import Foundation
import Logging
import StalecastOutbound
import StalecastSources
import StalecastStore
import StalecastWebhooks
import StalecastWire

/// Everything about sources that is made at start, before anything runs.
struct SourceParts: Sendable, CustomStringConvertible {
    let watchers: [SourceWatcher]
    let desk: TriggerDesk
    let herd: HerdGauge
    let engine: OutboundEngine?
    private let feeds: [Scope: Configuration.Feed]
    private let places: [Scope: String]

    /// Headers may hold secrets: whoever prints this sees none.
    var description: String { "sources of \(places.count) scopes" }

    /// Reads keys and secrets; blocks on files.
    ///
    /// - Throws: ``StartError`` with what to do about it.
    init(_ configuration: Configuration, store: TemplateStore, _ logger: Logger) throws(StartError) {
        let factory = try SourceFactory(configuration, logger: logger)
        let sink = SourceSink(
            store, numbered: Set(configuration.sources.scopes.filter(\.hasOriginNumbers).map(\.scope)))
        var watchers: [SourceWatcher] = []
        var targets: [TriggerTarget] = []
        for feed in configuration.sources.scopes where feed.isFed {
            let made = try factory.make(feed)
            let watcher = SourceWatcher(
                feed.scope, source: made.source, fence: made.fence, sink: sink, schedule: made.schedule,
                report: { logger.log($0, of: feed.scope, kind: feed.kind) })
            watchers.append(watcher)
            targets.append(try TriggerTarget(feed, watcher, configuration, store))
        }
        self.watchers = watchers
        desk = TriggerDesk(targets: targets)
        engine = factory.engine
        feeds = Dictionary(uniqueKeysWithValues: configuration.sources.scopes.map { ($0.scope, $0) })
        places = Dictionary(uniqueKeysWithValues: watchers.map { ($0.scope, $0.status.place) })
        herd = HerdGauge(
            windows: feeds.mapValues { HerdWindow(budget: $0.herdBudget, longest: $0.herdLongest) })
    }

    /// Why the scope cannot be published to here: the words for its source; nil where it can.
    func feed(of scope: Scope) -> String? {
        guard let feed = feeds[scope], feed.isFed else { return nil }
        return "its \(feed.kind.rawValue) source \(places[scope] ?? "")"
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
            let origin = feed.path ?? feed.url.map { String($0.prefix { $0 != "?" }) } ?? FirebaseSource.defaultBase
            sentences[feed.scope] =
                "\(feed.scope) is not fetched here: this daemon only tells of its changes (serve: notify); fetch "
                + "it from the origin, \(origin)"
        }
        return sentences
    }
}

extension Duration {
    var wholeSeconds: Int64 { components.seconds }
}

extension SourceSink {
    /// - Parameter numbered: the scopes whose origin's numbers are used.
    init(_ store: TemplateStore, numbered: Set<Scope>) {
        self.init(
            judge: { scope, sight in
                let adoption = Adoption(scope, sight, isNumbered: numbered.contains(scope), hasFenceTimedOut: false)
                switch adoption.relation(to: store.currentTemplates[scope]) {
                case .isNew: return .isNew
                case .isCurrent: return .isCurrent
                case .isOlder(let current): return .isRefused(.older(sight.content.version ?? 0, than: current))
                case .contradicts: return .isRefused(.sameVersion(sight.content.version ?? 0))
                }
            },
            adopt: { observation in
                let adoption = Adoption(
                    observation.scope, observation.sight, isNumbered: numbered.contains(observation.scope),
                    hasFenceTimedOut: observation.hasFenceTimedOut)
                do {
                    guard let version = try await store.adopt(adoption) else { return .unchanged }
                    return .adopted(version.version)
                } catch {
                    return .failed(OriginProblem(.store, "the version could not be committed: \(error)"))
                }
            })
    }
}

extension Adoption {
    fileprivate init(_ scope: Scope, _ sight: OriginSight, isNumbered: Bool, hasFenceTimedOut: Bool) {
        var metadata = sight.metadata
        // Numbers counted here are not the origin's.
        if !isNumbered { metadata?.rollbackSource = nil }
        let isUrgent = sight.isUrgent || sight.description.contains(ChangeNotes.urgentMarker)
        self.init(
            scope: scope, template: sight.content.template, number: isNumbered ? sight.content.version : nil,
            metadata: metadata,
            notes: ChangeNotes(isUrgent: isUrgent, hasFenceTimedOut: hasFenceTimedOut))
    }
}

extension OriginProblem {
    fileprivate static func older(_ version: VersionNumber, than current: VersionNumber) -> OriginProblem {
        OriginProblem(
            .older,
            "the origin shows version \(version), and version \(current) was adopted before: a replica that lags, or "
                + "an origin that began anew; for that one set versions: counted (firebase), or leave versionPointer out (http)"
        )
    }

    fileprivate static func sameVersion(_ version: VersionNumber) -> OriginProblem {
        OriginProblem(
            .sameVersion,
            "the origin shows other content under version \(version) than was adopted; its version must grow with "
                + "every change; if it does not, set versions: counted (firebase), or leave versionPointer out (http)")
    }
}
