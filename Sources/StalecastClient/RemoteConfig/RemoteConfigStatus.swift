/// End of the last fetch; raw values are Firebase's.
public enum RemoteConfigFetchStatus: Int, Sendable, Hashable {
    /// Nothing was ever fetched with this cache.
    case noFetchYet = 0
    /// The server answered, or what was fetched before is fresh enough.
    case success = 1
    /// No answer, or an error.
    case failure = 2
    /// The server said "not now": to this fetch, or before, and then it was not asked.
    case throttled = 3
}

/// End of ``RemoteConfig/fetchAndActivate()``; raw values are Firebase's.
public enum RemoteConfigFetchAndActivateStatus: Int, Sendable, Hashable {
    /// The fetch succeeded, or what was fetched before is fresh enough, and the content is active.
    case successFetchedFromRemote = 0
    /// Firebase's SDK says so when the activation fails, which it does not do here; there for code that switches over it.
    case successUsingPreFetchedData = 1
    /// The fetch failed; what was active stays.
    case error = 2
}

/// Source of a value; raw values are Firebase's.
public enum RemoteConfigSource: Int, Sendable, Hashable {
    /// The server: a content that was activated.
    case remote = 0
    /// ``RemoteConfig/setDefaults(_:)``.
    case `default` = 1
    /// Nowhere: the empty value of its type.
    case `static` = 2
}
