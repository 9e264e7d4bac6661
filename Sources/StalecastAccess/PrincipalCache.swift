import StalecastWire

/// Entries of one table of principals, by their numbers and by the digests of their credentials.
struct PrincipalCache<Entry: Sendable>: Sendable {
    private var entries: [Int32: (digest: SecretDigest, entry: Entry)] = [:]
    private var numbers: [SecretDigest: Int32] = [:]
    private var order: PrincipalNumbers

    init(_ order: PrincipalNumbers) { self.order = order }

    var count: Int { entries.count }

    subscript(number: Int32) -> Entry? { entries[number]?.entry }

    /// The newest entry of a credential.
    subscript(digest: SecretDigest) -> (number: Int32, entry: Entry)? {
        numbers[digest].flatMap { number in entries[number].map { (number, $0.entry) } }
    }

    /// A number for ``insert(_:as:of:)``. The oldest entry makes room, unless it is held.
    mutating func newNumber() -> Int32 {
        if order.isUsedUp {
            (entries, numbers) = ([:], [:])
            order.reset()
        }
        let (number, forgotten) = order.take()
        if let forgotten { remove(forgotten) }
        return number
    }

    /// Adds an entry. One that the credential had under another number stays, for streams that were opened with it.
    mutating func insert(_ entry: Entry, as number: Int32, of digest: SecretDigest) {
        entries[number] = (digest, entry)
        numbers[digest] = number
    }

    mutating func hold(_ number: Int32) { order.hold(number) }

    mutating func release(_ number: Int32) {
        if order.release(number) { remove(number) }
    }

    mutating func remove(_ number: Int32) {
        guard let gone = entries.removeValue(forKey: number) else { return }
        if numbers[gone.digest] == number { numbers[gone.digest] = nil }
    }

    /// - Returns: whether there were any.
    mutating func removeAll(where isGone: (Entry) -> Bool) -> Bool {
        let gone = entries.filter { isGone($0.value.entry) }.keys
        gone.forEach { remove($0) }
        return !gone.isEmpty
    }
}

extension Principal {
    /// The principal until it expires; nil later, and for one without an end.
    func current(at now: Timestamp) -> Principal? { expiresAt.map { now < $0 } ?? false ? self : nil }
}
