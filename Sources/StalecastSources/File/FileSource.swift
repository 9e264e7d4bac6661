import Dispatch
package import StalecastTemplate
package import StalecastWire
import Synchronization

/// A template in a file, or in the files of a directory, JSON or YAML. Waits until a writer is done, so that half a
/// file is never published; a file that goes away publishes nothing.
package final class FileSource: TemplateSource {
    package let place: String
    private let files: FileReading
    private let watch: FileWatch?
    private let quiet: Duration
    private let patience: Duration
    private let queue = DispatchQueue(label: "stalecast.files")
    private let state = Mutex(State())

    private struct State {
        /// Inventory of the last reading, when it is sure that a change would show in it.
        var inventory: FileReading.Inventory?
        var content: OriginContent?
        /// Problem of the last reading.
        var problem: OriginProblem?
        /// Inventory that has that problem, when it is sure that a change would show in it: not read again before it
        /// changes.
        var spoilt: FileReading.Inventory?
        var writers = OpenWriters()
        var watched = WatchedFiles()
        /// Time of the last event at a watched file.
        var heardAt: ContinuousClock.Instant?
        /// Nil while no stream is open.
        var listener: Int?

        var heard: Settling.Heard { Settling.Heard(hasWriters: writers.areOpen, lastEvent: heardAt) }

        /// - Returns: whether a process began to write to what is read, or goes on with it; and whether that is news.
        mutating func hear(_ event: FileWatch.Event) -> (isWriting: Bool, isFirst: Bool) {
            heardAt = .now
            let isRead = watched.isRead(event)
            return (isRead && event.isUnfinished, writers.hear(event, isRead: isRead))
        }
    }

    /// Time that a missing or invalid file must stay so before it is reported: a writer may be in the middle of it.
    private static let grace = Duration.seconds(1)
    /// Time between two tries within one look.
    private static let pause = Duration.milliseconds(20)
    /// Times of files count in steps of the kernel's clock tick, 10 ms at most: what changed just before it was read
    /// may change again and look the same.
    private static let tick = Duration.milliseconds(50)

    /// - Parameters:
    ///   - watch: nil makes looks the only way to see a change.
    ///   - maxBytes: of all files together. Default 8 MB.
    ///   - quiet: a directory is read when nothing has happened in it for so long. Default 100 ms.
    ///   - patience: what is changed during every try to read it is a problem after so long. Default 10 s.
    package init(
        path: String, reading: ContentReading = ContentReading(), kind: TemplateKind, watch: FileWatch?,
        maxBytes: Int = 8 << 20, quiet: Duration = .milliseconds(100), patience: Duration = .seconds(10)
    ) {
        place = path
        files = FileReading(path: path, reading: reading, kind: kind, maxBytes: maxBytes)
        (self.watch, self.quiet, self.patience) = (watch, quiet, patience)
    }

    package var kind: SourceKind { .file }

    package func forget() {
        state.withLock { state in
            state.inventory = nil
            state.content = nil
        }
    }

    // MARK: Looking

    package func poll() async -> OriginPoll {
        let began = ContinuousClock.now
        var settling = Settling(quiet: quiet)
        while true {
            let (poll, settled) = await tryOnce(settling, waited: .now - began)
            if let poll { return poll }
            settling = settled
            do { try await Task.sleep(for: Self.pause) } catch { return .unchanged }
        }
    }

    /// Files may be slow: not on a thread that others need.
    private func tryOnce(_ settling: Settling, waited: Duration) async -> (OriginPoll?, Settling) {
        await withCheckedContinuation { continuation in
            queue.async {
                var settling = settling
                let poll = self.tryNow(&settling, waited)
                continuation.resume(returning: (poll, settling))
            }
        }
    }

    /// - Returns: nil to try again soon.
    private func tryNow(_ settling: inout Settling, _ waited: Duration) -> OriginPoll? {
        // Before anything is read, so that what changes meanwhile is heard.
        let hearsWriters = follow()
        do throws(OriginProblem) {
            let inventory = try files.inventory()
            if state.withLock({ $0.inventory == inventory }) { return repeatLast() }
            if let problem = state.withLock({ $0.spoilt == inventory ? $0.problem : nil }) { return .failed(problem) }
            // Writers that began before the inventory are known after this; later ones show in the next inventory.
            if hearsWriters { watch?.catchUp() }
            let heard = hearsWriters ? state.withLock(\.heard) : nil
            guard settling.isQuiet(inventory, heard, waited: waited) else { return nil }
            let content: OriginContent
            do throws(OriginProblem) { content = try files.read(inventory) } catch {
                return report(error, waited, of: inventory)
            }
            // Changes in between must not be mixed into this content.
            guard try files.inventory() == inventory else {
                return waited < patience ? nil : report(restless, waited)
            }
            return keep(content, inventory)
        } catch {
            return report(error, waited)
        }
    }

    private var restless: OriginProblem {
        OriginProblem(
            .unreadable,
            "\(place) is changed again and again while it is read; write another file and rename it, or write less often"
        )
    }

    private func repeatLast() -> OriginPoll {
        state.withLock { $0.problem = nil }
        return .unchanged
    }

    private func keep(_ content: OriginContent, _ inventory: FileReading.Inventory) -> OriginPoll {
        let isOld = inventory.age > Self.tick
        return state.withLock { state in
            state.problem = nil
            state.inventory = isOld ? inventory : nil
            state.spoilt = nil
            if state.content == content { return .unchanged }
            state.content = content
            return .seen(OriginPoll.Sight(content: content))
        }
    }

    /// - Parameter inventory: of what could be read and cannot be used.
    private func report(
        _ problem: OriginProblem, _ waited: Duration, of inventory: FileReading.Inventory? = nil
    ) -> OriginPoll? {
        state.withLock { state in
            guard state.problem == problem || waited > Self.grace else { return nil }
            state.problem = problem
            state.inventory = nil
            state.spoilt = inventory.flatMap { $0.age > Self.tick && problem.reason == .invalidContent ? $0 : nil }
            return .failed(problem)
        }
    }

    // MARK: Listening

    package func listen(onChange: @escaping @Sendable (VersionNumber?) -> Void) async {
        guard let watch else { return }
        let listener = watch.add { self.hear($0, onChange) }
        state.withLock { $0.listener = listener }
        onChange(nil)
        // Until the task is cancelled: that is what throws.
        while (try? await Task.sleep(for: .seconds(86_400))) != nil {}
        state.withLock { $0.listener = nil }
        watch.remove(listener)
    }

    /// Watches the directories the path leads through now.
    ///
    /// - Returns: whether writers are heard.
    private func follow() -> Bool {
        guard let watch, let listener = state.withLock(\.listener) else { return false }
        let watched = files.watched()
        // First, to know what the events are about.
        state.withLock { $0.watched = watched }
        return watch.set(watched.places, of: listener)
    }

    private func hear(_ event: FileWatch.Event, _ onChange: @escaping @Sendable (VersionNumber?) -> Void) {
        let (isWriting, isFirst) = state.withLock { $0.hear(event) }
        guard isWriting else { return onChange(nil) }
        if isFirst { queue.asyncAfter(deadline: .now() + OpenWriters.patience) { onChange(nil) } }
    }
}
