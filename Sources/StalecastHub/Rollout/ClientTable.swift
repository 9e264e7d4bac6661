import StalecastWire

/// The identified clients of all scopes, by their keys: 44 bytes each, 8 bytes of index, and the name.
///
/// Up to the cap the table holds all of them. When it is full, ``level`` grows by one, and only clients whose key ends
/// in that many zero bits stay. The sample keeps the same clients over time, so each can be followed from stage to
/// stage. Counts are multiplied by ``weight``.
struct ClientTable {
    struct Entry {
        /// The newest versions it has got and runs, as far as we know; 0 is not known. Clamped to 32 bits.
        var fetched: UInt32 = 0
        var active: UInt32 = 0
        /// The versions of its scope to whose audience it belongs: bits of the ring.
        var cohort: UInt32 = 0
        /// The versions whose audience it left without having them. It left after it was told if ``cohort`` has the bit
        /// too, and before that if not.
        var gone: UInt32 = 0
        /// Time at which the client was last seen, in tenths of a second since the table was made.
        var seen: UInt32
        let scope: UInt16
        var topics: UInt16 = 0
        /// Index of its app and SDK.
        var label: UInt16 = 0
        /// Open streams and held polls. A count that reached its maximum stays there, since nothing tells how far above
        /// it the client went.
        var streams: UInt16 = 0
        var polls: UInt16 = 0
        /// Number of the other node of the cluster at which it listens, as that node said last; 0: none is known.
        var node: UInt16 = 0
        /// Number of fetches since the newest version, as counted for ``HerdExperience``.
        var fetches: UInt8 = 0
        /// Connected, or gone for less than ten seconds. See ``ClientTable/setPresent(_:_:)``.
        fileprivate(set) var isPresent = false
        /// True in the queue of clients that may have gone.
        var isLeaving = false
        /// Another node of the cluster counts it among the clients that fetched its version.
        var isCountedElsewhere = false

        var isLive: Bool { streams > 0 || polls > 0 }
        var isElsewhere: Bool { node != 0 }

        /// Notes a fetch.
        ///
        /// - Returns: whether it counts in its version's herd.
        mutating func countsFetch() -> Bool {
            guard fetches < FetchLoad.mostOfOne else { return false }
            fetches += 1
            return true
        }

        /// Whether it is of the audience of the version with this bit, and has not left it.
        func isAwaited(_ bit: UInt32) -> Bool { cohort & ~gone & bit != 0 }

        /// Whether it left the audience of the version with this bit after it was told.
        func isLost(_ bit: UInt32) -> Bool { cohort & gone & bit != 0 }
    }

    let cap: Int
    let keepsNames: Bool
    private(set) var level = 0
    private(set) var keys: [UInt64] = []
    var entries: [Entry] = []
    private var index: [UInt32] = []
    /// Clients that are present, by the number of their scope: a publish must not pass over all clients to count them.
    private var present: [Int] = []
    /// Ids one after the other, where each begins, and the addresses.
    private var ids: [UInt8] = []
    private var idStarts: [UInt32] = []
    private(set) var addresses: [UInt64] = []
    /// New ids that clients of one address may bring within a minute.
    var newIDs = AddressBudget(perAddress: 1024, total: .max, period: 600)

    init(cap: Int, keepsNames: Bool) {
        self.cap = cap
        self.keepsNames = keepsNames
    }

    /// Number of clients for which one of those held stands.
    var weight: Int { 1 << level }

    func presentCount(of scope: UInt16) -> Int { scope < present.count ? present[Int(scope)] : 0 }

    mutating func setPresent(_ place: Int, _ isPresent: Bool) {
        guard entries[place].isPresent != isPresent else { return }
        entries[place].isPresent = isPresent
        countPresent(entries[place].scope, isPresent ? 1 : -1)
    }

    private mutating func countPresent(_ scope: UInt16, _ change: Int) {
        while present.count <= scope { present.append(0) }
        present[Int(scope)] += change
    }

    func place(of key: UInt64) -> Int? {
        guard !index.isEmpty else { return nil }
        // Drops the low bits: in a sample they are zero, and all keys would begin at few slots.
        var slot = Int(truncatingIfNeeded: key >> 20) & (index.count - 1)
        while index[slot] != 0 {
            let place = Int(index[slot]) - 1
            if keys[place] == key { return place }
            slot = (slot + 1) & (index.count - 1)
        }
        return nil
    }

    /// Adds one that is not there.
    ///
    /// - Returns: its place, and whether others had to go for it; nil where it is not of the sample.
    mutating func add(_ key: UInt64, _ entry: Entry, id: String, address: UInt64) -> (place: Int?, hasShrunk: Bool) {
        let before = level
        while isOfSample(key), entries.count >= cap, level < 40 {
            level += 1
            keep { [level] key, _ in key & ((1 << level) - 1) == 0 }
        }
        guard isOfSample(key), entries.count < cap else { return (nil, level != before) }
        append(key, entry, keepsNames ? Array(id.utf8)[...] : [], address)
        if entries.count * 3 > index.count * 2 { rebuildIndex() } else { insert(entries.count - 1) }
        return (entries.count - 1, level != before)
    }

    /// Takes a larger share of new clients, one step, when less than a quarter of the room is used. Those held go on;
    /// for a while the counts are too low, until the others have come again.
    mutating func growSample() {
        if level > 0, entries.count < cap / 4 { level -= 1 }
    }

    private func isOfSample(_ key: UInt64) -> Bool { key & ((1 << level) - 1) == 0 }

    private mutating func append(_ key: UInt64, _ entry: Entry, _ id: ArraySlice<UInt8>, _ address: UInt64) {
        keys.append(key)
        entries.append(entry)
        if entry.isPresent { countPresent(entry.scope, 1) }
        guard keepsNames else { return }
        idStarts.append(UInt32(ids.count))
        ids.append(contentsOf: id)
        addresses.append(address)
    }

    /// Lets go of all others.
    mutating func keep(_ isKept: (UInt64, Entry) -> Bool) {
        var kept = ClientTable(cap: cap, keepsNames: keepsNames)
        kept.level = level
        for place in entries.indices where isKept(keys[place], entries[place]) {
            kept.append(keys[place], entries[place], idBytes(place), keepsNames ? addresses[place] : 0)
        }
        kept.rebuildIndex()
        self = kept
    }

    private mutating func rebuildIndex() {
        var size = 64
        while size * 2 < entries.count * 3 + 3 { size *= 2 }
        index = [UInt32](repeating: 0, count: size)
        for place in entries.indices { insert(place) }
    }

    private mutating func insert(_ place: Int) {
        var slot = Int(truncatingIfNeeded: keys[place] >> 20) & (index.count - 1)
        while index[slot] != 0 { slot = (slot + 1) & (index.count - 1) }
        index[slot] = UInt32(place + 1)
    }

    private func idBytes(_ place: Int) -> ArraySlice<UInt8> {
        guard keepsNames else { return [] }
        let end = place + 1 < idStarts.count ? Int(idStarts[place + 1]) : ids.count
        return ids[Int(idStarts[place])..<end]
    }

    /// nil where names are not kept.
    func id(_ place: Int) -> String? { keepsNames ? String(decoding: idBytes(place), as: UTF8.self) : nil }

    var byteCount: Int {
        entries.capacity * MemoryLayout<Entry>.stride + keys.capacity * 8 + index.count * 4 + ids.capacity
            + idStarts.capacity * 4 + addresses.capacity * 8
    }
}
