import Glibc

/// The way from a path to what it shows, through every symbolic link: where something must be watched to hear that the
/// path shows something else.
struct PathWalk: Sendable, Hashable {
    /// Every directory on the way that holds a link or the end, with the names that matter in it.
    private(set) var places: WatchedPlaces = [:]
    /// The end without links; nil when there is nothing there.
    private(set) var target: String?

    /// Most links that Linux follows.
    private static let maxLinks = 40

    /// - Parameter path: relative ones are taken from the working directory.
    init(_ path: String) {
        var pending = Self.components(path)[...]
        var directory = path.hasPrefix("/") ? "/" : "."
        var links = 0
        while let name = pending.popFirst() {
            if name == ".." {
                directory = Self.join(directory, "..")
                continue
            }
            let here = Self.join(directory, name)
            if let destination = Self.link(here) {
                note(name, in: directory)
                links += 1
                guard links <= Self.maxLinks else { return }
                if destination.hasPrefix("/") { directory = "/" }
                pending = (Self.components(destination) + pending)[...]
            } else if pending.isEmpty || !Self.exists(here) {
                // The end, or the first thing that is missing: it may come.
                note(name, in: directory)
                target = pending.isEmpty && Self.exists(here) ? here : nil
                return
            } else {
                directory = here
            }
        }
        target = directory
    }

    private mutating func note(_ name: String, in directory: String) {
        places[directory] = (places[directory] ?? .these([])).adding(name)
    }

    private static func components(_ path: String) -> [String] {
        path.split(separator: "/").filter { $0 != "." }.map(String.init)
    }

    private static func join(_ directory: String, _ name: String) -> String {
        directory.hasSuffix("/") ? directory + name : "\(directory)/\(name)"
    }

    private static func exists(_ path: String) -> Bool {
        var status = stat()
        return lstat(path, &status) == 0
    }

    private static func link(_ path: String) -> String? {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink(path, &buffer, buffer.count)
        guard count > 0 else { return nil }
        return String(decoding: buffer[..<count].map { UInt8(truncatingIfNeeded: $0) }, as: UTF8.self)
    }
}

/// Files of a source: where to watch, and whose writers to wait for.
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
