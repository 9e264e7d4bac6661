package import StalecastHub
package import StalecastWire

/// Counts of fetches and installations of a shard or the Front since start.
package struct FetchTally: Sendable {
    /// Answers by dialect and, within it, by state.
    private var answered = [Int](repeating: 0, count: FetchDialect.allCases.count * FetchState.allCases.count)
    /// Refusals by HTTP status.
    package private(set) var refused: [Int: Int] = [:]
    /// Bytes of heads and bodies written.
    package private(set) var bytes = 0
    /// Answers that were finished already; the others were rendered for the request.
    package private(set) var cacheHits = 0
    /// Time that renderings took, and their number.
    package private(set) var rendering = Histogram()
    package private(set) var installations: [InstallationEvent: Int] = [:]
    /// Requests with analytics events of LaunchDarkly's SDKs, which were answered and dropped.
    package private(set) var droppedEvents = 0

    package init() {}

    /// Installations by what was asked; raw values are metric labels.
    package enum InstallationEvent: String, Sendable, CaseIterable {
        case created
        case token
        case deleted
    }

    package func answered(_ dialect: FetchDialect, _ state: FetchState) -> Int {
        answered[Self.index(dialect, state)]
    }

    /// Refusals for no fault of the client's.
    package var failures: Int { refused.reduce(0) { $0 + ($1.key >= 500 ? $1.value : 0) } }

    /// All answers.
    package var total: Int { answered.reduce(0, +) }

    mutating func count(_ answer: FetchAnswer) {
        answered[Self.index(answer.dialect, answer.bytes.state)] += 1
        bytes += answer.bytes.byteCount
        if let seconds = answer.renderingSeconds { rendering.record(seconds: seconds) } else { cacheHits += 1 }
    }

    mutating func countRefusal(status: Int) { refused[status, default: 0] += 1 }
    mutating func countDroppedEvents() { droppedEvents += 1 }
    mutating func count(_ event: InstallationEvent) { installations[event, default: 0] += 1 }

    private static func index(_ dialect: FetchDialect, _ state: FetchState) -> Int {
        dialect.index * FetchState.allCases.count + state.index
    }

    package mutating func merge(_ other: FetchTally) {
        for index in answered.indices { answered[index] += other.answered[index] }
        refused.merge(other.refused, uniquingKeysWith: +)
        bytes += other.bytes
        cacheHits += other.cacheHits
        rendering.merge(other.rendering)
        droppedEvents += other.droppedEvents
        installations.merge(other.installations, uniquingKeysWith: +)
    }
}

/// The answer to one fetch, and what is counted of it.
package struct FetchAnswer: Sendable {
    package var bytes: FetchBytes
    package let dialect: FetchDialect
    /// nil when the answer was finished already.
    package let renderingSeconds: Double?
    /// Client that got it, of which scope and version; nil for an invalid id.
    package let client: ClientIdentity?
    package let scope: Scope
    package let version: VersionNumber
}
