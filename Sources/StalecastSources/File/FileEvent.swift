/// Something happened to a name in a watched directory.
struct FileEvent: Sendable, Hashable {
    let directory: String
    /// Empty for the directory itself, and when events were lost.
    let name: String
    /// A file was written to and is still open.
    let isUnfinished: Bool
}

/// Which names in a watched directory matter.
enum WatchedNames: Sendable, Hashable {
    case all
    case these(Set<String>)

    func contains(_ name: String) -> Bool {
        switch self {
        case .all: true
        case .these(let names): names.contains(name)
        }
    }

    func adding(_ name: String) -> WatchedNames { union(.these([name])) }

    func union(_ others: WatchedNames?) -> WatchedNames {
        switch (self, others) {
        case (_, nil): self
        case (.these(let some), .these(let others)): .these(some.union(others))
        default: .all
        }
    }
}

/// The directories whose events matter to somebody.
typealias WatchedPlaces = [String: WatchedNames]
