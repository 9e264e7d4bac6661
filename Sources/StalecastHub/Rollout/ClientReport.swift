package import StalecastWire

/// Report of a client about itself: a claim, never a fact, and never a reason to send anything.
package struct ClientReport: Sendable, Hashable {
    /// Raw values are on the wire.
    package enum State: String, Sendable, CaseIterable {
        case fetched, active, failed
    }

    /// Reason why a report is not taken; raw values are metric labels.
    package enum Refusal: String, Error, CaseIterable {
        /// Too many reports, of one address or in all.
        case budget
        /// No client of that id is connected or was seen within the hour.
        case stranger
    }

    package let state: State
    package let version: VersionNumber
    /// Error of a client that failed, at most ``maxErrorBytes``; empty when it did not fail or does not say.
    package let error: String

    /// Longer ones are cut.
    private static let maxErrorBytes = 120

    package init(_ state: State, _ version: VersionNumber, error: String = "") {
        self.state = state
        self.version = version
        self.error = String(decoding: error.utf8.prefix(Self.maxErrorBytes), as: UTF8.self)
    }
}
