import StalecastWire

/// Clients to tell the other nodes of. Each client is kept once, with its last state: nodes answer each other's
/// sightings, so a list would grow with each round.
struct Sightings {
    /// Most clients: as many as are counted one by one by default, so that those of one second always fit. A client whose
    /// sighting is lost would be awaited until the next version.
    static let most = 65_536

    private var fetches: [Scope: [UInt64: RolloutTracker.ForeignFetch]] = [:]
    private var count = 0

    mutating func note(_ fetch: RolloutTracker.ForeignFetch) {
        let isKnown = fetches[fetch.scope]?[fetch.key] != nil
        guard isKnown || count < Self.most else { return }
        fetches[fetch.scope, default: [:]][fetch.key] = fetch
        if !isKnown { count += 1 }
    }

    /// Sightings since the last call, in no order.
    mutating func take() -> [RolloutTracker.ForeignFetch] {
        defer { self = Sightings() }
        return fetches.values.flatMap(\.values)
    }
}
