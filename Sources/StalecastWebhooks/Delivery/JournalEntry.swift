package import StalecastWire

/// Something to be remembered across restarts.
package enum JournalEntry: Sendable {
    case lane(WebhookID, Scope, JournalEntry.LaneRecord)
    /// One version beyond the cursor is settled.
    case beyond(WebhookID, Scope, ScopeLog.Place)
    indirect case health(WebhookID, JournalEntry.TargetHealth)
    indirect case dead(WebhookID, DeadLetter)
    /// Versions are to be sent again on request, or have been.
    case extras(WebhookID, Scope, [CommitSequence], areOwed: Bool)
    case removed(WebhookID)
}

extension JournalEntry {
    package struct LaneRecord: Sendable, Hashable {
        /// Everything up to here is settled.
        package var cursor = ScopeLog.Place.start
        /// The newest version the receiver took.
        package var acknowledged = ScopeLog.Place.start
        /// The newest one that was given up for good, which is not offered again to the same receiver.
        package var givenUp: CommitSequence = 0

        package init() {}
    }
}

extension DeliveryImage {
    /// A lane as a run leaves it to the next one.
    package struct StoredLane: Sendable, Equatable {
        package var record = JournalEntry.LaneRecord()
        package var beyond: [CommitSequence: VersionNumber] = [:]
        package var extras: Set<CommitSequence> = []
        /// The cursor was one into another history, and is forgotten.
        package var isRenewed = false

        package init() {}

        init(_ record: JournalEntry.LaneRecord, isRenewed: Bool) {
            self.record = record
            self.isRenewed = isRenewed
        }

        /// - Parameter cursor: what comes after it is owed.
        init(from cursor: ScopeLog.Place, acknowledged: ScopeLog.Place) {
            record.cursor = cursor
            record.acknowledged = acknowledged
        }
    }
}

extension JournalEntry {
    /// Memory of a webhook besides its lanes.
    package struct TargetHealth: Sendable, Hashable {
        package var failures = 0
        /// Attempts that failed since ``failingSince``.
        package var failedAttempts = 0
        package var failingSince: Timestamp?
        /// Time it has been failing while the daemon ran, in microseconds.
        package var failingTime: Int64 = 0
        package var disabledReason: String?
        package var disabledSince: Timestamp?
        /// Digest of the receiver that all this is about: ``Webhook/receiverDigest``; nil when none is known.
        package var receiver: String?

        package init() {}
    }
}

/// Image from which a run starts.
package struct DeliveryImage: Sendable, Equatable {
    package var lanes: [WebhookID: [Scope: DeliveryImage.StoredLane]] = [:]
    package var health: [WebhookID: JournalEntry.TargetHealth] = [:]
    /// Every webhook of which there is anything.
    package var ids: Set<WebhookID> = []

    package init() {}

    /// Whether a webhook is owed its newest version wherever that stands in the store.
    ///
    /// - Parameter bound: the topics that are about a scope. A webhook of none is owed nothing, and nothing is known of
    ///   it.
    package func needsAll(_ webhooks: [Webhook], bound: Set<TopicName>) -> Bool {
        webhooks.contains { !ids.contains($0.id) && !bound.isDisjoint(with: $0.topics) }
            || lanes.values.contains { $0.values.contains(where: \.isRenewed) }
    }
}

extension JournalEntry {
    /// Thing of which a later entry replaces an earlier one.
    enum Subject: Hashable {
        case lane(WebhookID, Scope)
        case health(WebhookID)
    }

    /// nil for an entry that no other replaces.
    var subject: Subject? {
        switch self {
        case .lane(let id, let scope, _): .lane(id, scope)
        case .health(let id, _): .health(id)
        default: nil
        }
    }
}

extension [JournalEntry] {
    /// Leaves out cursors and healths that a later entry replaces: what waits stays bounded however long nothing can be
    /// written.
    package var newest: [JournalEntry] { newest(by: \.subject) }
}

extension Array {
    /// The elements without those whose subject a later one has as well.
    func newest(by subject: (Element) -> JournalEntry.Subject?) -> [Element] {
        var subjects: Set<JournalEntry.Subject> = []
        return reversed().filter { subject($0).map { subjects.insert($0).inserted } ?? true }.reversed()
    }
}
