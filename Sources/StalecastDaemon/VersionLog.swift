import Logging
import ServiceLifecycle
import StalecastEdge
import StalecastHub
import StalecastWire

/// One line in the log for every version: what, who, from where, and how many subscribers were told.
///
/// A log that nobody reads stops this, and never a publish: lines wait in a bounded line, and what does not fit is left
/// out.
struct VersionLog: Sendable {
    fileprivate struct Entry: Sendable {
        let change: TemplateChange
        let topics: [TopicName]
    }

    private static let room = 1024
    /// Names in one line; the rest are counted.
    private static let namesShown = 10

    fileprivate let entries: AsyncStream<Entry>
    fileprivate let add: AsyncStream<Entry>.Continuation
    private let logger: Logger

    init(logger: Logger) {
        self.logger = logger
        (entries, add) = AsyncStream.makeStream(of: Entry.self, bufferingPolicy: .bufferingNewest(Self.room))
    }

    /// Takes a version that was announced. Never blocks.
    func announced(_ change: TemplateChange, on topics: [TopicName]) {
        add.yield(Entry(change: change, topics: topics))
    }

    fileprivate func write(_ entry: Entry, _ presence: Presence) {
        let metadata = entry.change.metadata
        let listening = presence.counts[entry.change.scope.project] ?? [:]
        let told = entry.topics.reduce(0) { $0 + (listening[$1]?.values.reduce(0, +) ?? 0) }
        var fields: Logger.Metadata = [
            "scope": "\(entry.change.scope)", "version": "\(metadata.number)",
            "type": "\(metadata.updateType.rawValue)", "origin": "\(metadata.updateOrigin.rawValue)",
            "keys": "\(Self.names(entry.change.changedKeys))", "subscribers": "\(told)",
        ]
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
}

/// Writes the lines of a ``VersionLog``; ends when those that were waiting are written.
struct VersionLogService: Service {
    let log: VersionLog
    let edge: EdgeServer

    func run() async throws {
        await withGracefulShutdownHandler {
            // Counting visits every subscriber, so a burst of versions shares one count.
            var (presence, next) = (Presence(), ContinuousClock.now)
            for await entry in log.entries {
                if ContinuousClock.now >= next {
                    presence = await edge.presence()
                    next = .now + .seconds(1)
                }
                log.write(entry, presence)
            }
        } onGracefulShutdown: {
            log.add.finish()
        }
    }
}
