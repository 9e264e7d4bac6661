import StalecastWire

/// Versions of a lane that are shown to people and in metrics.
extension Lane {
    /// The versions the receiver has not acknowledged, at least.
    var lag: Int64 {
        guard let newest = newest?.change ?? tries.last, newest.sequence > record.cursor.sequence else { return 0 }
        return max(1, newest.version - record.cursor.version)
    }

    /// The newest version that one of the webhook's topics announced, as far as that is known: after a restart it may
    /// be older than the log in memory, and then it is what the receiver has.
    var current: VersionNumber? {
        if let known = newest?.change.version { return known }
        let latest = max(tries.last?.version ?? 0, record.acknowledged.version)
        return latest > 0 ? latest : nil
    }

    /// The last version the receiver took, or that needed none.
    var acknowledged: VersionNumber {
        record.givenUp == record.cursor.sequence ? record.acknowledged.version : record.cursor.version
    }
}
