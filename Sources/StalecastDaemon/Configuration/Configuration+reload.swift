import StalecastHub

extension Configuration {
    /// Key paths whose value differs from `old` and cannot be applied without a restart, in the order of the table.
    package func changesNeedingRestart(from old: Configuration) -> [String] {
        changes(from: old).filter { !appliesLive($0, over: old) }.map(\.path)
    }

    /// Key paths whose value differs from `old` and can be applied at once, in the order of the table.
    package func liveChanges(from old: Configuration) -> [String] {
        changes(from: old).filter { appliesLive($0, over: old) }.map(\.path)
    }

    /// `old` with the live changes of this configuration: what a daemon started with `old` runs with after SIGHUP.
    package func applyingLiveChanges(to old: Configuration) -> Configuration {
        var running = old
        for option in changes(from: old) where appliesLive(option, over: old) { option.copy(self, &running) }
        return running
    }

    private func changes(from old: Configuration) -> [ConfigurationOption] {
        ConfigurationOption.all.filter { !$0.isEqual(old, self) }
    }

    /// Topics over scopes that come into being only with the next start have to wait for it too, and so have webhooks
    /// of projects or topics that wait.
    private func appliesLive(_ option: ConfigurationOption, over old: Configuration) -> Bool {
        if option.needsRestart { return false }
        let topicsApply = topics.allSatisfy { Set($0.scopes).isSubset(of: old.scopes) }
        switch option.path {
        case ConfigurationOption.topics.path: return topicsApply
        case ConfigurationOption.receiversPath:
            return topicsApply && Set(webhooks.receivers.map(\.project)).isSubset(of: old.projects.map(\.id))
        default: return true
        }
    }
}
