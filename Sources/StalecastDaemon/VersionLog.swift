import Logging
import ServiceLifecycle
import StalecastEdge
import StalecastHub
import StalecastWire
import Synchronization

/// One line in the log for every version: what, who, from where, and how many subscribers were told.
///
/// A log without a reader delays these lines, but never a publish: a bounded number of versions waits, and older ones
/// are left out. The lines of a burst are written together, because a thread that is woken for each costs every publish
/// 25 µs of CPU.
final class VersionLog: Sendable {
    private struct Entry: Sendable {
        let change: TemplateChange
        let topics: [TopicName]
    }

    /// Versions that wait, at most.
    private static let room = 1024
    /// Time that the versions of a burst wait for each other.
    private static let pause = Duration.milliseconds(20)
    /// Names in one line; the rest are counted.
    private static let namesShown = 10

    private let waiting = Mutex<[Entry]>([])
    /// Says that something waits.
    private let signals: AsyncStream<Void>
    private let signal: AsyncStream<Void>.Continuation
    private let logger: Logger

    init(logger: Logger) {
        self.logger = logger
        (signals, signal) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    }

    /// Takes a version that was announced. Never blocks.
    func announced(_ change: TemplateChange, on topics: [TopicName]) {
        waiting.withLock { waiting in
            if waiting.count == Self.room { waiting.removeFirst() }
            waiting.append(Entry(change: change, topics: topics))
        }
        signal.yield()
    }

    private func write(_ entry: Entry, _ presence: Presence) {
        let metadata = entry.change.metadata
        let listening = presence.counts[entry.change.scope.project] ?? [:]
        let told = entry.topics.reduce(0) { $0 + (listening[$1]?.values.reduce(0, +) ?? 0) }
        var fields = Logger.Metadata(minimumCapacity: 8)
        fields["scope"] = "\(entry.change.scope)"
        fields["version"] = "\(metadata.number)"
        fields["keys"] = "\(Self.names(entry.change.changedKeys))"
        fields["subscribers"] = "\(told)"
        for (name, word) in [("type", metadata.updateType.rawValue), ("origin", metadata.updateOrigin.rawValue)]
        where !word.hasSuffix("_UNSPECIFIED") { fields[name] = "\(word)" }
        let user = metadata.updateUser
        if user != UpdateUser() { fields["user"] = "\(user.email.isEmpty ? user.name : user.email)" }
        if let source = metadata.rollbackSource { fields["rollbackSource"] = "\(source)" }
        logger.info("version announced", metadata: fields)
    }

    private static func names(_ keys: [String]?) -> String {
        guard let keys else { return "unknown" }
        let rest = keys.count - namesShown
        return keys.prefix(namesShown).joined(separator: ",") + (rest > 0 ? " and \(rest) more" : "")
    }

    /// Writes what was announced; ends when the lines that were waiting are written.
    func run(counting edge: EdgeServer) async {
        await withGracefulShutdownHandler {
            // Counting visits every subscriber, so a burst of versions shares one count.
            var (presence, next) = (Presence(), ContinuousClock.now)
            for await _ in signals {
                if ContinuousClock.now >= next {
                    presence = await edge.presence()
                    next = .now + .seconds(1)
                }
                writeWaiting(presence)
                // A cancelled pause only means that lines are written sooner.
                try? await Task.sleep(for: Self.pause)
            }
            writeWaiting(waiting.withLock { $0.isEmpty } ? presence : await edge.presence())
        } onGracefulShutdown: { [signal] in
            signal.finish()
        }
    }

    private func writeWaiting(_ presence: Presence) {
        let entries = waiting.withLock { waiting in
            defer { waiting = [] }
            return waiting
        }
        for entry in entries { write(entry, presence) }
    }
}
