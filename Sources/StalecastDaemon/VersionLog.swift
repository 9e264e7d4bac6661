import Logging
import ServiceLifecycle
import StalecastEdge
import StalecastHub
import StalecastWire

/// One line in the log for every version: what, who, from where, and how many subscribers were told.
///
/// A log without a reader stops this, and never a publish: lines wait in a bounded line, and what does not fit is left
/// out.
struct VersionLog: Sendable {
    private struct Entry: Sendable {
        let change: TemplateChange
        let topics: [TopicName]
    }

    private static let room = 1024
    /// Names in one line; the rest are counted.
    private static let namesShown = 10

    private let entries: AsyncStream<Entry>
    private let add: AsyncStream<Entry>.Continuation
    private let logger: Logger

    init(logger: Logger) {
        self.logger = logger
        (entries, add) = AsyncStream.makeStream(of: Entry.self, bufferingPolicy: .bufferingNewest(Self.room))
    }

    /// Takes a version that was announced. Never blocks.
    func announced(_ change: TemplateChange, on topics: [TopicName]) {
        add.yield(Entry(change: change, topics: topics))
    }

    private func write(_ entry: Entry, _ presence: Presence) {
        let metadata = entry.change.metadata
        let listening = presence.counts[entry.change.scope.project] ?? [:]
        let told = entry.topics.reduce(0) { $0 + (listening[$1]?.values.reduce(0, +) ?? 0) }
        var fields: Logger.Metadata = [
            "scope": "\(entry.change.scope)", "version": "\(metadata.number)",
            "keys": "\(Self.names(entry.change.changedKeys))", "subscribers": "\(told)",
        ]
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
            for await entry in entries {
                if ContinuousClock.now >= next {
                    presence = await edge.presence()
                    next = .now + .seconds(1)
                }
                write(entry, presence)
            }
        } onGracefulShutdown: {
            add.finish()
        }
    }
}
