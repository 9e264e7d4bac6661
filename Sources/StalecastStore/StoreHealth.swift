package import StalecastWire

/// Whether publishes can be committed; reads go on in every case.
package enum StoreHealth: Sendable, Hashable, CustomStringConvertible {
    case ok
    /// Publishes are refused until there is space; no restart needed. With the free bytes found then, and those required.
    case diskFull(since: Timestamp, free: Int64, required: Int64)
    /// Nothing is committed any more in this process; it should exit non-zero and be started again.
    case failed(reason: String)
    /// ``TemplateStore/close()`` was called.
    case closed

    /// Sentence for people; `ok` is what scripts ask for.
    package var description: String {
        switch self {
        case .ok: "ok"
        case .diskFull(let since, let free, let required) where free < required:
            "the disk is full since \(since.description.prefix(19))Z: \(Self.size(free)) were free then, and store.minFreeSpace "
                + "asks for \(Self.size(required)); publishes are refused until there is space"
        case .diskFull(let since, _, _):
            "the disk is full since \(since.description.prefix(19))Z, or a quota is used up; publishes are refused until "
                + "there is space"
        case .failed(let reason): "failed: \(reason); the daemon will exit"
        case .closed: "closed"
        }
    }

    static func size(_ bytes: Int64) -> String {
        bytes < 1 << 20 ? "\(bytes >> 10) KiB" : "\(bytes >> 20) MiB"
    }

    /// State that readiness shows.
    package var canCommit: Bool { self == .ok }
}
