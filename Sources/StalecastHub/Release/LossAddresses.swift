/// Streams of the told addresses, or of the untold ones, and how many of them went away in each round.
///
/// Keeps at most ``capacity`` addresses: beyond that those whose hash is below a limit, which is independent of what
/// becomes of them.
package struct LossAddresses: Sendable {
    /// Rounds that an address keeps apart: the one that runs, and those whose streams may still come back.
    package static let rounds: UInt32 = 4

    private struct Entry {
        let address: UInt64
        var open: UInt32 = 0
        /// The round up to which the slots are valid.
        var round: UInt32
        /// Streams that were open or came, by round modulo ``LossAddresses/rounds``.
        var exposed: SIMD4<UInt32> = .zero
        /// Streams among them that ended and did not come back.
        var lost: SIMD4<UInt32> = .zero

        /// Streams that are open are exposed to each round that begins.
        mutating func roll(to current: UInt32) {
            while round < current {
                round = max(round &+ 1, current < rounds ? 0 : current &- rounds &+ 1)
                exposed[Int(round % rounds)] = open
                lost[Int(round % rounds)] = 0
            }
        }
    }

    private let capacity: Int
    /// Hashes from here on are left out.
    private var limit = UInt64.max
    /// Order of arrival, so that it does not depend on what becomes of an address.
    private var entries: [Entry] = []
    private var places: [UInt64: Int] = [:]

    package init(capacity: Int) { self.capacity = capacity }

    package var count: Int { entries.count }

    /// Counts streams that an address has more from the running round on.
    package mutating func add(_ address: UInt64, _ streams: UInt32, round: UInt32) {
        guard let place = place(of: address, round) else { return }
        entries[place].open &+= streams
        entries[place].exposed[Int(round % Self.rounds)] &+= streams
    }

    /// Takes back the oldest loss of an address, because a stream came.
    ///
    /// - Parameter rounds: those that are not judged yet.
    /// - Returns: false when none was lost in them.
    package mutating func takeBack(_ address: UInt64, rounds: ClosedRange<UInt32>) -> Bool {
        guard let place = places[address] else { return false }
        entries[place].roll(to: rounds.upperBound)
        for round in rounds where entries[place].lost[Int(round % Self.rounds)] > 0 {
            entries[place].lost[Int(round % Self.rounds)] &-= 1
            return true
        }
        return false
    }

    /// Counts a stream that came back: the loss that it took back was exposed before.
    package mutating func reopen(_ address: UInt64) {
        if let place = places[address] { entries[place].open &+= 1 }
    }

    package mutating func end(_ address: UInt64, isLost: Bool, round: UInt32) {
        guard let place = places[address], entries[place].open > 0 else { return }
        entries[place].roll(to: round)
        entries[place].open &-= 1
        if isLost { entries[place].lost[Int(round % Self.rounds)] &+= 1 }
    }

    /// Takes streams out of the running round: from now on they count with the other addresses.
    package mutating func remove(_ address: UInt64, _ streams: UInt32, round: UInt32) {
        guard let place = places[address] else { return }
        entries[place].roll(to: round)
        let slot = Int(round % Self.rounds)
        entries[place].open -= min(entries[place].open, streams)
        entries[place].exposed[slot] -= min(entries[place].exposed[slot], streams)
    }

    /// Hands out the share that each address lost in a round, 0 to 1, in order of arrival, and forgets addresses that have
    /// no stream.
    package mutating func close(_ round: UInt32, running: UInt32, _ body: (Double) -> Void) {
        let slot = Int(round % Self.rounds)
        for place in entries.indices {
            entries[place].roll(to: running)
            let (exposed, lost) = (entries[place].exposed[slot], entries[place].lost[slot])
            // A stream that came back for a loss of the round before is not among the exposed.
            if exposed > 0 { body(min(1, Double(lost) / Double(exposed))) }
            entries[place].lost[slot] = 0
        }
        keep { $0.open > 0 || $0.lost != .zero || $0.exposed[Int(running % Self.rounds)] > 0 }
    }

    private mutating func place(of address: UInt64, _ round: UInt32) -> Int? {
        if let place = places[address] {
            entries[place].roll(to: round)
            return place
        }
        guard address.scrambled < limit else { return nil }
        if entries.count >= capacity {
            limit /= 2
            let limit = limit
            keep { $0.address.scrambled < limit }
            return place(of: address, round)
        }
        places[address] = entries.count
        entries.append(Entry(address: address, round: round))
        return entries.count - 1
    }

    private mutating func keep(_ isKept: (Entry) -> Bool) {
        guard !entries.allSatisfy(isKept) else { return }
        entries.removeAll { !isKept($0) }
        places.removeAll(keepingCapacity: true)
        for (place, entry) in entries.enumerated() { places[entry.address] = place }
    }
}
