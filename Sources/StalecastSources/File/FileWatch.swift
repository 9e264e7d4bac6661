import CLinux
import Dispatch
import Glibc
import Synchronization

/// One inotify instance for all sources that are files. Where there is none to be had, or a file system tells nothing,
/// no event comes, and the looks that go on anyway must do.
package final class FileWatch: Sendable {
    package let descriptor: Int32
    private let queue = DispatchQueue(label: "stalecast.files.events")
    /// Made, started and ended in one place each; Dispatch does not say that its sources are Sendable.
    nonisolated(unsafe) private let input: any DispatchSourceRead
    private let state = Mutex(State())

    private struct State {
        var nextListener = 0
        var listeners: [Int: Listener] = [:]
        /// Names by watch. The kernel gives one to a directory under all of its names: with `..`, relative, bind
        /// mounts.
        var directories: [Int32: Set<String>] = [:]
        var watches: [String: Int32] = [:]

        /// - Returns: the watch, when this was the last name of its directory.
        mutating func forget(_ directory: String) -> Int32? {
            guard let watch = watches.removeValue(forKey: directory) else { return nil }
            directories[watch]?.remove(directory)
            guard directories[watch]?.isEmpty ?? false else { return nil }
            directories[watch] = nil
            return watch
        }
    }

    private struct Listener {
        var places: WatchedPlaces = [:]
        let hear: @Sendable (Event) -> Void

        func concerns(_ event: Event) -> Bool {
            guard let names = places[event.directory] else { return false }
            return event.name.isEmpty || names.contains(event.name)
        }
    }

    /// Directories that are watched; as many as the kernel watches for us.
    package var directories: Int { state.withLock { $0.directories.count } }

    /// nil where there is no inotify, or too many instances of it.
    package init?() {
        descriptor = stalecast_inotify()
        guard descriptor >= 0 else { return nil }
        input = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue)
        let descriptor = descriptor
        input.setCancelHandler { close(descriptor) }
        input.setEventHandler { [weak self] in self?.read() }
        input.activate()
    }

    deinit { input.cancel() }

    /// - Parameter hear: on a queue of the watch's own; must be quick.
    /// - Returns: what the other functions know the listener by.
    func add(_ hear: @escaping @Sendable (Event) -> Void) -> Int {
        state.withLock { state in
            state.nextListener += 1
            state.listeners[state.nextListener] = Listener(hear: hear)
            return state.nextListener
        }
    }

    /// Watches these directories for the listener and no others.
    ///
    /// - Returns: false when one of them cannot be watched.
    func set(_ places: WatchedPlaces, of listener: Int) -> Bool {
        state.withLock { state in
            guard state.listeners[listener] != nil else { return false }
            let before = state.listeners[listener]?.places ?? [:]
            state.listeners[listener]?.places = places
            let isWatched = places.keys.map { watch($0, &state) }.allSatisfy(\.self)
            for directory in before.keys where places[directory] == nil { unwatchIfUnused(directory, &state) }
            return isWatched
        }
    }

    /// Returns when everything that happened so far was told to the listeners.
    func catchUp() { queue.sync { read() } }

    func remove(_ listener: Int) {
        state.withLock { state in
            let places = state.listeners.removeValue(forKey: listener)?.places ?? [:]
            for directory in places.keys { unwatchIfUnused(directory, &state) }
        }
    }

    /// Adding a directory that is watched already gives its watch, or another one when its name shows another now.
    private func watch(_ directory: String, _ state: inout State) -> Bool {
        let watch = stalecast_inotify_watch(descriptor, directory)
        guard watch >= 0 else { return false }
        if state.watches[directory] != watch, let old = state.forget(directory) {
            stalecast_inotify_unwatch(descriptor, old)
        }
        state.watches[directory] = watch
        state.directories[watch, default: []].insert(directory)
        return true
    }

    private func unwatchIfUnused(_ directory: String, _ state: inout State) {
        guard !state.listeners.values.contains(where: { $0.places[directory] != nil }),
            let watch = state.forget(directory)
        else { return }
        stalecast_inotify_unwatch(descriptor, watch)
    }

    // MARK: Events

    private func read() {
        var buffer = [UInt8](repeating: 0, count: 64 * 1024)
        while true {
            // The kernel gives whole events only (inotify(7)): none is cut off at the buffer's end.
            let count = Glibc.read(descriptor, &buffer, buffer.count)
            guard count > 0 else { return }
            buffer.withUnsafeBytes { bytes in
                var offset = 0
                var event = stalecast_file_event()
                while true {
                    let next = stalecast_inotify_event(bytes.baseAddress, count, offset, &event)
                    guard next > 0 else { return }
                    tell(event)
                    offset = next
                }
            }
        }
    }

    private func tell(_ event: stalecast_file_event) {
        let hearers = state.withLock { state -> [(@Sendable (Event) -> Void, Event)] in
            guard event.watch >= 0 else {
                return state.listeners.values.map {
                    ($0.hear, Event(directory: "", name: "", isUnfinished: false))
                }
            }
            let directories = state.directories[event.watch] ?? []
            if event.is_gone, !directories.isEmpty {
                for directory in directories { _ = state.forget(directory) }
                // A directory that was only renamed keeps its watch otherwise, for ever. The kernel gives no number twice.
                stalecast_inotify_unwatch(descriptor, event.watch)
            }
            let name = String(cString: event.name)
            return directories.flatMap { directory in
                let told = Event(directory: directory, name: name, isUnfinished: event.is_unfinished)
                return state.listeners.values.filter { $0.concerns(told) }.map { ($0.hear, told) }
            }
        }
        for (hear, event) in hearers { hear(event) }
    }

    /// Something happened to a name in a watched directory.
    struct Event: Sendable, Hashable {
        let directory: String
        /// Empty for the directory itself, and when events were lost.
        let name: String
        /// A file was written to and is still open.
        let isUnfinished: Bool
    }

    /// Names in a watched directory that matter.
    enum Names: Sendable, Hashable {
        case all
        case these(Set<String>)

        func contains(_ name: String) -> Bool {
            switch self {
            case .all: true
            case .these(let names): names.contains(name)
            }
        }

        func adding(_ name: String) -> Names { union(.these([name])) }

        func union(_ others: Names?) -> Names {
            switch (self, others) {
            case (_, nil): self
            case (.these(let some), .these(let others)): .these(some.union(others))
            default: .all
            }
        }
    }
}

/// The directories whose events matter to a source.
typealias WatchedPlaces = [String: FileWatch.Names]
