import Foundation
import ServiceLifecycle
import StalecastEdge
import StalecastStore
import StalecastWebhooks
import StalecastWire
import Synchronization

/// Keeps the daemon's ``Timeline``, also over restarts: in `timeline.json` of the data directory, which is written every
/// five minutes and at the end.
final class TimelineKeeper: Sendable {
    private static let period = Duration.seconds(5)
    /// Samples from one writing to the next.
    private static let samplesBetweenWrites = 60

    private let path: String
    private let timeline: Mutex<Timeline>

    /// Reads the file of the run before. One that is missing or damaged begins an empty time line.
    init(directory: String) {
        path = "\(directory)/timeline.json"
        // A damaged file is as none.
        let former = FileManager.default.contents(atPath: path).flatMap { JSONValue.ifValid($0) }
        timeline = Mutex(former.map(Timeline.init) ?? Timeline())
    }

    func run(sampling sample: @Sendable () async -> Timeline.Sample) async {
        var untilWrite = Self.samplesBetweenWrites
        for await _ in AsyncTimer(period: Self.period).cancelOnGracefulShutdown() {
            await take(sample)
            untilWrite -= 1
            if untilWrite > 0 { continue }
            untilWrite = Self.samplesBetweenWrites
            write()
        }
        await take(sample)
        write()
    }

    private func take(_ sample: @Sendable () async -> Timeline.Sample) async {
        let (counts, now) = (await sample(), Timestamp.now())
        timeline.withLock { $0.take(counts, at: now) }
    }

    private func write() {
        let text = JSONValue.object(timeline.withLock { $0.json }).text() + "\n"
        // A picture, no promise: on a full disk the one before stays.
        try? text.writePrivately(to: path)
    }

    var json: JSONObject { timeline.withLock { $0.json } }
}

extension Daemon.Parts {
    /// Takes samples until told to end.
    func keepTimeline() async { await timeline.run { await sample() } }

    private func sample() async -> Timeline.Sample {
        let tally = edge.tally
        let webhooks = await webhooks.delivery.tally()
        return Timeline.Sample(
            streams: tally.streams + tally.polls,
            deliveries: tally.deliveries.values.reduce(0, +) + webhooks.delivered, fetches: tally.fetches.total,
            failures: webhooks.failed + tally.fetches.failures)
    }

    /// Answer of `GET /v1/timeline`.
    func timelineReport() async -> JSONValue {
        var object = timeline.json
        object["since"] = .string(startedAt.description)
        object["publishes"] = .array(await recentPublishes())
        return .object(object)
    }

    /// Versions of all scopes that were made within a day, oldest first; of each scope at most the newest 300.
    private func recentPublishes() async -> [JSONValue] {
        let query = VersionQuery(pageSize: 300, startTime: Timestamp.now().advanced(by: .seconds(-86_400)))
        var found: [(Scope, VersionMetadata)] = []
        for scope in scopes {
            // Without them the time line is still worth showing.
            let page = try? await store.versions(of: scope, query)
            found += (page?.versions ?? []).map { (scope, $0) }
        }
        return found.sorted { $0.1.updateTime < $1.1.updateTime }.map { scope, version in
            [
                "time": .string(version.updateTime.description), "project": .string(scope.project.description),
                "namespace": .string(scope.namespace.description), "versionNumber": .string(String(version.number)),
                "updateType": .string(version.updateType.rawValue), "updateUser": version.updateUser.json,
            ]
        }
    }
}
