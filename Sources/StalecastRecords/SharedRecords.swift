/// Small named values that all nodes share, beside the log: webhooks, API keys, proposals, nodes, assignments. Reads
/// are linearizable, writes compare and set; what a watch brings is a hint.
package protocol SharedRecords: Sendable {
    /// All there are. Not of one moment when they are many: what changes while they are read rings the watch event.
    func all() async throws(LogError) -> RecordPage
    /// Records of those names that exist, at most 100 names, at one moment.
    func records(_ names: [RecordName]) async throws(LogError) -> RecordPage
    /// Puts at most ``RecordPut/most`` records in one step, or none of them.
    ///
    /// - Returns: whether it is done, and the records as they are now.
    func put(_ puts: [RecordPut]) async throws(LogError) -> (isDone: Bool, page: RecordPage)
    func remove(_ name: RecordName, at revision: Int64) async throws(LogError) -> RecordOutcome
    /// Hints that something has changed; ends when nothing more will come, or when one was lost.
    func watch() async throws(LogError) -> AsyncStream<RecordWatchEvent>

    /// A lease that ends a lifetime after it was last renewed, or later.
    func grant(_ lifetime: Duration) async throws(LogError) -> RecordLease
    /// False: there is no such lease any more, nor its records.
    func renew(_ lease: RecordLease) async throws(LogError) -> Bool
    func revoke(_ lease: RecordLease) async throws(LogError)

    /// Writes state of an assignment's owner for its successor. It is no record, and watches do not report it.
    ///
    /// - Parameter token: of the ownership; false when it has ended.
    func keep(_ state: [UInt8], of assignment: RecordName, token: AssignmentLease.Token) async throws(LogError) -> Bool
    /// Document that was stored last; nil: nothing.
    func kept(of assignment: RecordName) async throws(LogError) -> [UInt8]?
}

extension SharedRecords {
    /// Puts one record; see ``RecordPut``.
    package func put(
        _ value: [UInt8], to name: RecordName, over revision: Int64?, lease: RecordLease?
    ) async throws(LogError) -> RecordOutcome {
        let (isDone, page) = try await put([RecordPut(name: name, value: value, over: revision, lease: lease)])
        let record = page.records.first
        return isDone ? .done(record, revision: page.revision) : .conflict(record, revision: page.revision)
    }
}

package typealias RecordLease = Int64

/// One record that is to be written.
package struct RecordPut: Sendable {
    package let name: RecordName
    package let value: [UInt8]
    /// Revision of the record that is replaced; nil makes a new one.
    package let replaced: Int64?
    /// The record goes away with it; nil: it stays.
    package let lease: RecordLease?

    package init(name: RecordName, value: [UInt8], over replaced: Int64?, lease: RecordLease?) {
        (self.name, self.value, self.replaced, self.lease) = (name, value, replaced, lease)
    }

    /// Number of records that are written in one step, at most: etcd takes 128 operations, two for each.
    package static let most = 50
}

/// Name of a record: a kind without a slash, and an id, which may have some.
package struct RecordName: Sendable, Hashable, CustomStringConvertible {
    package let kind: String
    package let id: String

    package init(_ kind: String, _ id: String) {
        self.kind = kind
        self.id = id
    }

    /// nil unless `text` is `<kind>/<id>`.
    package init?(_ text: some StringProtocol) {
        guard let slash = text.firstIndex(of: "/"), slash > text.startIndex else { return nil }
        self.init(String(text[..<slash]), String(text[text.index(after: slash)...]))
    }

    package var description: String { "\(kind)/\(id)" }
}

package struct SharedRecord: Sendable, Hashable {
    package let name: RecordName
    package let value: [UInt8]
    /// Revision of its last change, which the next one compares.
    package let revision: Int64
    /// Revision of the change that made it: the token of an ownership.
    package let creation: Int64

    /// Bytes of a value, at most.
    package static let maxBytes = 64 << 10

    package init(name: RecordName, value: [UInt8], revision: Int64, creation: Int64) {
        (self.name, self.value, self.revision, self.creation) = (name, value, revision, creation)
    }
}

/// Page that a read of records brings.
package struct RecordPage: Sendable {
    package var records: [SharedRecord]
    /// Revision of all records at the read; of the first read when it took several.
    package var revision: Int64

    package init(_ records: [SharedRecord], revision: Int64) {
        self.records = records
        self.revision = revision
    }
}

/// Result of a change.
package enum RecordOutcome: Sendable {
    /// - Parameters:
    ///   - revision: of all there is, after the change.
    ///   - record: as it is now; nil: removed.
    case done(SharedRecord?, revision: Int64)
    /// Something else is there, or nothing: nothing was changed.
    case conflict(SharedRecord?, revision: Int64)
}

/// A hint of a watch: it may come twice, late, or out of order.
package enum RecordWatchEvent: Sendable {
    /// The watch is in place: what changes from now on should ring.
    case opened
    case changed([RecordName])
}
