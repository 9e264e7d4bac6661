import StalecastWire

/// Entries and attempts that are written in one transaction, in the order in which they came. Its memory serves one
/// batch after the other.
struct JournalBatch: Sendable {
    enum Item: Sendable {
        case entry(JournalEntry)
        case attempt(Attempt)

        fileprivate var subject: JournalEntry.Subject? {
            guard case .entry(let entry) = self else { return nil }
            return entry.subject
        }
    }

    /// An attempt whose record lies among ``records``.
    struct Attempt: Sendable {
        let webhook: WebhookID
        let startedAt: Timestamp
        fileprivate(set) var record: Range<Int>
    }

    private(set) var items: [Item] = []
    /// Records of the attempts as ``AttemptRecord/appendRest(of:to:)`` writes them.
    private(set) var records: [UInt8] = []

    mutating func append(_ entry: JournalEntry) { items.append(.entry(entry)) }

    mutating func append(_ attempt: DeliveryAttempt) {
        let start = records.count
        AttemptRecord.appendRest(of: attempt, to: &records)
        items.append(
            .attempt(
                Attempt(webhook: attempt.webhook, startedAt: attempt.startedAt, record: start..<records.count)))
    }

    mutating func append(_ other: JournalBatch) {
        for item in other.items {
            guard case .attempt(var attempt) = item else {
                items.append(item)
                continue
            }
            attempt.record = attempt.record.lowerBound + records.count..<attempt.record.upperBound + records.count
            items.append(.attempt(attempt))
        }
        records += other.records
    }

    /// Leaves out what a later entry replaces.
    mutating func compact() { items = items.newest(by: \.subject) }

    /// Removes everything; keeps the memory unless it is much.
    mutating func removeAll() {
        items.removeAll(keepingCapacity: items.count <= 16_384)
        records.removeAll(keepingCapacity: records.count <= 4 << 20)
    }
}
