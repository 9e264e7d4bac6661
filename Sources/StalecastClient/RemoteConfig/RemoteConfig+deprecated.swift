extension RemoteConfig {
    /// Makes the fetched content the active one.
    ///
    /// - Returns: whether there was something new.
    @available(*, deprecated, message: "Use activate() or activate(completion:) instead.")
    @discardableResult
    public func activateFetched() -> Bool { keeper.activate() != nil }
}

extension RemoteConfigSettings {
    /// Settings of the former developer mode: with it on, every fetch asks the server.
    @available(*, deprecated, message: "Use minimumFetchInterval = 0 instead.")
    public convenience init(developerModeEnabled: Bool) {
        self.init()
        if developerModeEnabled { minimumFetchInterval = 0 }
    }

    /// Whether every fetch asks the server: the former name of a `minimumFetchInterval` of 0.
    @available(*, deprecated, message: "Use minimumFetchInterval instead.")
    public var isDeveloperModeEnabled: Bool { minimumFetchInterval == 0 }
}
