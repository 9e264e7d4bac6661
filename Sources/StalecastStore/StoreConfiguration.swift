package import StalecastWire

/// Everything the store can be told. Only `directory` has no default.
package struct StoreConfiguration: Sendable {
    /// The data directory. Made with mode 0700 when it does not exist; holds `stalecast.sqlite`, `highwater`, `lock`.
    package var directory: String
    /// The projects that can be published to. Default: `demo`, number 123456789012.
    package var projects: [Project]
    /// Makes it a replica of a shared log. nil, the default: a store of its own.
    package var replica: Replica?
    /// Begin an empty store where the high-water mark says that there was one. Default false: a disk that is not mounted
    /// must not look like a store without versions.
    package var beginEmpty = false
    /// Versions kept per scope, the newest ones; at least 1. Default 300, as Firebase.
    package var maxVersionsPerScope = 300
    /// Age at which a version that is not the active one is removed. Default 90 days, as Firebase.
    package var maxVersionAge: Duration = .seconds(90 * 86_400)
    /// A publish is refused before its transaction begins when the file system has less free space, in bytes.
    /// Default 16 MiB; 0 leaves it to SQLite to notice.
    package var minFreeBytes: Int64 = 16 << 20
    /// Publishes that may wait for the writer at once; more are refused as ``StoreError/unavailable(_:)``. Default 256.
    package var maxWaitingPublishes = 256
    /// Size of the write-ahead log, in bytes, from which it is written back into the database. Default 4 MiB.
    package var checkpointBytes: Int64 = 4 << 20
    /// The wall clock that stamps versions and measures their age.
    package var now: @Sendable () -> Timestamp = Timestamp.now
    /// A clock that only goes forward: measures how long other nodes' approvals have been under way.
    package var uptime: @Sendable () -> Duration = Self.sinceStart

    private static let start = ContinuousClock.now
    private static let sinceStart: @Sendable () -> Duration = { ContinuousClock.now - start }

    package init(directory: String, projects: [Project] = [.demo]) {
        self.directory = directory
        self.projects = projects
    }

    /// Log of which the store is a replica.
    package struct Replica: Sendable, Hashable {
        /// nil, while the log cannot be asked, takes the replica that is there.
        package var epoch: Epoch?
        /// Numbers that the log's history gave away before it was this one.
        package var floors = NumberFloors()

        package init(epoch: Epoch?) { self.epoch = epoch }
    }

    /// A project the daemon serves: Firebase clients use the id and the number interchangeably.
    package struct Project: Sendable, Hashable {
        package let id: ProjectID
        /// Appears in every ETag; decimal in URLs.
        package let number: UInt64

        package init(id: ProjectID, number: UInt64) {
            self.id = id
            self.number = number
        }

        /// `demo`, number 123456789012: what serves when nothing is configured.
        package static let demo: Project = {
            // It cannot fail, as the words for the crash say.
            guard let id = try? ProjectID("demo") else { preconditionFailure("demo is a legal project id") }
            return Project(id: id, number: 123_456_789_012)
        }()
    }
}
