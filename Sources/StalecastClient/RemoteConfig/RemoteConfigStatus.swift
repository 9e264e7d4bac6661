/// How the last fetch ended; raw values are Firebase's.
public enum RemoteConfigFetchStatus: Int, Sendable, Hashable {
    /// Nothing was ever fetched with this cache.
    case noFetchYet = 0
    /// The server answered, or what was fetched before is fresh enough.
    case success = 1
    /// No answer, or an error.
    case failure = 2
    /// The server was not asked, because it had said "not now".
    case throttled = 3
}

/// How ``RemoteConfig/fetchAndActivate()`` ended; raw values are Firebase's.
public enum RemoteConfigFetchAndActivateStatus: Int, Sendable, Hashable {
    /// Something new was activated.
    case successFetchedFromRemote = 0
    /// Nothing new: what is active stays.
    case successUsingPreFetchedData = 1
    /// The fetch failed; what had been fetched before is active.
    case error = 2
}

/// Where a value comes from; raw values are Firebase's.
public enum RemoteConfigSource: Int, Sendable, Hashable {
    /// The server: a content that was activated.
    case remote = 0
    /// ``RemoteConfig/setDefaults(_:)``.
    case `default` = 1
    /// Nowhere: the empty value of its type.
    case `static` = 2
}
