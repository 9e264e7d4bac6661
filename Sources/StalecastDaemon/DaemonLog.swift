import Foundation
package import Logging
import StalecastWire
import Synchronization

/// Writes log lines to standard error: text for people, one JSON object per line for collectors.
package struct DaemonLog: LogHandler {
    package var metadata: Logger.Metadata = [:]
    /// Level, never below the process's; setting it makes this logger quieter and no other.
    package var logLevel: Logger.Level {
        get { max(Self.level.withLock { $0 }, floor) }
        set { floor = newValue }
    }
    private var floor = Logger.Level.trace
    private let label: String
    private let format: Configuration.LogFormat

    /// One level for the whole process, so that a reload reaches every logger.
    private static let level = Mutex(Logger.Level.info)

    package init(label: String, format: Configuration.LogFormat) {
        self.label = label
        self.format = format
    }

    package static func setLevel(_ level: Logger.Level) { self.level.withLock { $0 = level } }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    package func log(event: LogEvent) {
        let own = event.metadata ?? [:]
        let merged = metadata.isEmpty ? own : metadata.merging(own) { _, new in new }
        let line =
            switch format {
            case .text: text(event.level, event.message, merged)
            case .json: json(event.level, event.message, merged)
            }
        StandardError.write(Self.journalPriorities ? "<\(event.level.priority)>\(line)" : line)
    }

    /// Whether standard error goes to systemd's journal, which takes a line's priority from its beginning
    /// (`sd-daemon(3)`).
    private static let journalPriorities = isJournal(ProcessInfo.processInfo.environment["JOURNAL_STREAM"])

    /// - Parameter stream: `JOURNAL_STREAM`, device and inode of what systemd connected. It is inherited, so a process
    ///   whose output went elsewhere since sees others.
    package static func isJournal(_ stream: String?, _ descriptor: Int32 = STDERR_FILENO) -> Bool {
        var status = stat()
        guard let stream, fstat(descriptor, &status) == 0 else { return false }
        return stream == "\(status.st_dev):\(status.st_ino)"
    }

    private func text(_ level: Logger.Level, _ message: Logger.Message, _ metadata: Logger.Metadata) -> String {
        var line = ""
        line.reserveCapacity(256)
        line += "\(Timestamp.now()) \(level) \(label): \(message)"
        for (key, value) in metadata.sorted(by: { $0.key < $1.key }) { line += " \(key)=\(Self.quoted("\(value)"))" }
        line += "\n"
        return line
    }

    /// Values with blanks or control characters are written as JSON strings, so that a line stays a line.
    private static func quoted(_ value: String) -> String {
        let isPlain = !value.isEmpty && value.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != 0x22 }
        return isPlain ? value : JSONValue.string(value).text()
    }

    private func json(_ level: Logger.Level, _ message: Logger.Message, _ metadata: Logger.Metadata) -> String {
        var object: JSONObject = [
            "time": .string(Timestamp.now().description), "level": .string(level.rawValue), "logger": .string(label),
            "message": .string(message.description),
        ]
        for (key, value) in metadata.sorted(by: { $0.key < $1.key }) { object[key] = .string("\(value)") }
        return JSONValue.object(object).text() + "\n"
    }
}

extension Logger.Level {
    /// syslog's number.
    package var priority: Int {
        switch self {
        case .trace, .debug: 7
        case .info: 6
        case .notice: 5
        case .warning: 4
        case .error: 3
        case .critical: 2
        }
    }
}
