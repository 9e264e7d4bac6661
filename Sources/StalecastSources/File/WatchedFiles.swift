/// What a source hears of: where to watch, and whose writers to wait for.
struct WatchedFiles: Sendable, Hashable {
    private(set) var places: WatchedPlaces = [:]
    /// Every name on the way to what is read: of a file that is reached by a link the writer works under another name.
    private var read: WatchedPlaces = [:]

    /// - Parameter walk: to a file that is read.
    mutating func add(_ walk: PathWalk) {
        for (directory, names) in walk.places {
            places[directory] = names.union(places[directory])
            read[directory] = names.union(read[directory])
        }
    }

    /// - Parameter directory: of which all files that look like templates are read.
    mutating func add(whole directory: String) { places[directory] = .all }

    /// Whether what happened may be a writer at work on what is read.
    func isRead(_ event: FileWatch.Event) -> Bool {
        if read[event.directory]?.contains(event.name) ?? false { return true }
        // What was made since the directory was listed.
        return places[event.directory] == .all && FileReading.isTemplate(event.name)
    }
}
