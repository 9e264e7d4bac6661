package import StalecastRecords
package import StalecastWire

/// The one order of versions that several daemons agree on. Everything it reads is linearizable; what a watch brings is
/// a hint. Narrow enough for a table of an SQL database: a row for the log metadata, a row for the head that an append
/// locks.
package protocol SharedLog: Sendable {
    /// The entries after a sequence, oldest first, at most `limit`, and log metadata and head at the same moment.
    func page(after sequence: CommitSequence, limit: Int) async throws(LogError) -> LogPage
    /// Appends an entry behind exactly the head it was made for, under exactly this log metadata, its content being
    /// stored. Repeating a call, as often as needed, tells the outcome of one whose outcome is unknown.
    ///
    /// - Parameter owner: of an assignment, whose record must still be the one with this token; nil: nothing is asked
    ///   for.
    func append(
        _ entry: LogEntry, under logMetadata: LogMetadata, owner: AssignmentOwner?
    ) async throws(LogError) -> Appended
    /// Puts the pieces of a long content where ``content(of:)`` finds them; before the entry is appended, as often as
    /// needed.
    func store(_ chunks: [[UInt8]], of key: ContentKey) async throws(LogError)
    /// Whether both are still the newest. This is the cheapest question that makes a replica's answer linearizable.
    func isCurrent(_ head: LogHead, under logMetadata: LogMetadata) async throws(LogError) -> Bool
    /// The content of an entry that has none in its line.
    func content(of entry: LogEntry) async throws(LogError) -> [UInt8]
    /// The long contents that are stored, whole or in part.
    func contents() async throws(LogError) -> [StoredContent]
    /// Removes a content, when it is stored as it was seen and the log still ends at a head up to which no entry refers
    /// to it.
    ///
    /// - Returns: false: it was not removed.
    func remove(_ content: StoredContent, at head: LogHead) async throws(LogError) -> Bool
    /// Puts log metadata in the place of `old`, or the first one for nil.
    ///
    /// - Parameter head: where the log must end for it; nil: anywhere.
    /// - Returns: the log metadata that holds now; it is `new` only if its epoch and rules say so.
    func amend(_ old: LogMetadata?, to new: LogMetadata, at head: LogHead?) async throws(LogError) -> LogMetadata
    /// Removes entries, and puts the log metadata that says so in the place of `old`, in one step.
    ///
    /// - Parameter sequences: at most 100; those that are not there count for nothing.
    /// - Returns: false when the log metadata is another, and nothing was removed.
    func prune(_ sequences: [CommitSequence], under old: LogMetadata, to new: LogMetadata) async throws(LogError)
        -> Bool
    /// Hints that something has changed; the newest replaces an older one. The stream ends when no more will come, for
    /// example at a lost connection.
    func watch() async throws(LogError) -> AsyncStream<WatchEvent>
}

/// Page that a read of the log brings.
package struct LogPage: Sendable {
    package let logMetadata: LogMetadata
    /// Head of the log, not of the page.
    package let head: LogHead
    /// Entries in sequence. Between two that do not follow each other retention removed those below
    /// ``LogMetadata/prunedBelow``.
    package let entries: [LogEntry]

    package init(logMetadata: LogMetadata, head: LogHead, entries: [LogEntry]) {
        (self.logMetadata, self.head, self.entries) = (logMetadata, head, entries)
    }
}

/// Owner in whose name an entry is proposed: the assignment's record, and the token with which it was made.
package typealias AssignmentOwner = (assignment: RecordName, token: AssignmentLease.Token)

/// Result of a proposed entry.
package enum Appended: Sendable {
    case committed
    /// The sequence is taken by this entry. If its publish id is the proposed entry's, an earlier call appended it.
    case taken(LogEntry)
    /// Nothing is in its place and the log metadata is another: it never landed and never will.
    case superseded(LogMetadata)
    /// Nothing is in its place, the log metadata is the same, and the log ends elsewhere: the log lost its end. With
    /// the head it was made for: its content is not stored, or no longer.
    case elsewhere(LogHead)
    /// Nothing is in its place, and the assignment is another owner's or free: it never landed and never will.
    case deposed
}

extension SharedLog {
    package func append(_ entry: LogEntry, under logMetadata: LogMetadata) async throws(LogError) -> Appended {
        try await append(entry, under: logMetadata, owner: nil)
    }

    package func amend(_ old: LogMetadata?, to new: LogMetadata) async throws(LogError) -> LogMetadata {
        try await amend(old, to: new, at: nil)
    }

    /// Reads a page as ``page(after:limit:)`` does, with as many entries as one answer can bring.
    func page(after sequence: CommitSequence, _ limit: inout PageLimit) async throws(LogError) -> LogPage {
        while true {
            do throws(LogError) {
                let page = try await page(after: sequence, limit: limit.entries)
                limit.succeeded(page)
                return page
            } catch {
                // Asked before `failed` halves the number: after one entry alone there is no smaller page to try.
                let isLeast = limit.entries == 1
                limit.failed(error)
                guard case .unknown = error, !isLeast else { throw error }
            }
        }
    }
}

/// A hint of a watch: it may come twice, late, out of order, or never.
package enum WatchEvent: Sendable {
    /// The watch is in place: what is committed from now on should ring.
    case opened
    case entry(LogEntry)
    /// The log metadata or something unknown changed.
    case other
}
