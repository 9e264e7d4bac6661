import StalecastWire

/// The key set of one issuer, and when it is asked for again. Pure: the fetching code gives it facts and takes its
/// decisions.
struct IssuerState: Sendable {
    var issuer: TokenIssuer
    private(set) var keys: KeySet?
    /// Time when the set came.
    private(set) var loadedAt: Timestamp?
    /// Time when it is due again; a time long past is at once.
    private(set) var dueAt = Timestamp(microseconds: 0)
    private var askedAt: Timestamp?
    private var isBeingFetched = false
    private var failures = 0
    private(set) var problem: String?

    /// Time between two fetches of the set that tokens with unknown keys cause.
    static let unknownKeyPause = Duration.seconds(30)
    /// Time that keys stay good while their place does not answer.
    static let outage = Duration.seconds(86_400)
    static let ages = Duration.seconds(60)...Duration.seconds(86_400)
    static let defaultAge = Duration.seconds(600)
    /// Files are looked at this often.
    static let fileAge = Duration.seconds(10)

    init(_ issuer: TokenIssuer) { self.issuer = issuer }

    /// Returns the state under a changed configuration. Keys from the same URL are kept, because their server may be
    /// unreachable now.
    func following(_ changed: TokenIssuer) -> IssuerState {
        if changed == issuer { return self }
        guard changed.keys == issuer.keys, changed.algorithms == issuer.algorithms else { return IssuerState(changed) }
        var next = self
        next.issuer = changed
        // A fetch under way was asked for by the former configuration, and its answer does not count.
        next.isBeingFetched = false
        return next
    }

    /// The keys that may be used now.
    func usable(at now: Timestamp) -> KeySet? {
        guard let loadedAt, now < loadedAt.advanced(by: Self.outage) else { return nil }
        return keys
    }

    /// Whether to fetch now; once for each fetch.
    mutating func begins(at now: Timestamp) -> Bool {
        // A clock that was set back must not hold it up.
        let isAhead = askedAt.map { $0 > now } ?? false
        guard !isBeingFetched, dueAt <= now || isAhead else { return false }
        isBeingFetched = true
        askedAt = now
        return true
    }

    /// A token names a key that is not there.
    ///
    /// - Returns: whether the set is being looked at again for it.
    mutating func missed(at now: Timestamp) -> Bool {
        if isBeingFetched { return true }
        if let askedAt, askedAt <= now, now < askedAt.advanced(by: Self.unknownKeyPause) { return false }
        dueAt = now
        return true
    }

    /// - Parameter age: how long its server says that it is good.
    mutating func fetched(_ set: KeySet, age: Duration?, at now: Timestamp) {
        isBeingFetched = false
        (keys, loadedAt, problem, failures) = (set, now, nil, 0)
        let age = min(max(age ?? Self.defaultAge, Self.ages.lowerBound), Self.ages.upperBound)
        dueAt = now.advanced(by: issuer.keys.isURL ? age : Self.fileAge)
    }

    mutating func failed(_ reason: String, at now: Timestamp) {
        isBeingFetched = false
        problem = reason
        failures = min(failures + 1, 4)
        // 5, 10, 20, 40 seconds; with an unknown key in between no sooner than half a minute.
        dueAt = now.advanced(by: issuer.keys.isURL ? .seconds(5 << (failures - 1)) : Self.fileAge)
    }
}
