import StalecastRecords
package import StalecastWire

/// Counts of a node's work with the shared log since its process began.
package struct ClusterFigures: Sendable {
    /// Result of calls that append. A publish may take several.
    package enum Append: String, Sendable, CaseIterable {
        /// Its entry is in the log, by this call or an earlier one.
        case committed
        /// Another node's entry has the place.
        case taken
        /// The log's rules are others now.
        case superseded
        /// The log ends elsewhere, or the content's pieces are gone.
        case elsewhere
        /// The source it came from is another node's to watch.
        case deposed
        /// Certainly nothing was done.
        case denied
        case unknown
    }

    /// Work that a node could not do, and tries again.
    package enum Failure: String, Sendable, CaseIterable {
        /// Read the log.
        case read
        /// Store what it had read.
        case apply
        /// Keep a watch: it ended.
        case watch
    }

    package var appends: [Append: Int] = [:]
    package var failures: [Failure: Int] = [:]
    package var checks: [HeadChecks.Answer: Int] = [:]
    /// Publishes that were answered "outcome unknown", by their later outcome; nil where it was never learnt.
    package var unknownPublishes = 0
    package var resolved: [Bool?: Int] = [:]
    /// Watches opened on the log.
    package var watches = 0
    /// Histories begun because the log was not the one that was followed.
    package var renewals = 0
    /// Long contents that were not needed any more.
    package var sweptContents = 0
    /// The log's end as it was heard of last, by whatever way.
    package var newest: CommitSequence = 0

    mutating func count(_ result: Result<Appended, LogError>, of publish: PublishID) {
        let outcome: Append =
            switch result {
            case .success(.committed): .committed
            case .success(.taken(let entry)): entry.publish.isSameRequest(as: publish) ? .committed : .taken
            case .success(.superseded): .superseded
            case .success(.elsewhere): .elsewhere
            case .success(.deposed): .deposed
            case .failure(.unknown): .unknown
            case .failure: .denied
            }
        appends[outcome, default: 0] += 1
    }
}
