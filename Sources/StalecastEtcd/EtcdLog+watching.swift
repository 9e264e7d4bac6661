package import StalecastCluster
package import StalecastRecords
import Synchronization

extension EtcdLog {
    /// Watch events that were not handled yet; when there are more, the oldest are dropped, and the gap is read.
    private static let maxWatchEvents = 256

    /// - Returns: watch events until no watch is open.
    package func watch() async throws(LogError) -> AsyncStream<WatchEvent> {
        let (watchEvents, continuation) = AsyncStream.makeStream(
            of: WatchEvent.self, bufferingPolicy: .bufferingNewest(Self.maxWatchEvents))
        let first = try await openWatch(continuation)
        let watches = TwinWatches(self, continuation)
        // The end of the stream cancels it.
        let watching = Task { await watches.run(first) }
        continuation.onTermination = { _ in watching.cancel() }
        return watchEvents
    }

    fileprivate func openWatch(
        _ watchEvents: AsyncStream<WatchEvent>.Continuation
    ) async throws(LogError) -> OpenWatch {
        let (ended, continuation) = AsyncStream.makeStream(of: Never.self)
        do throws(EtcdFailure) {
            // Records have a watch of their own; all keys of the log sort before them.
            let end = try await client.watch(
                EtcdRange(prefix + "/", to: prefix + "/record/"),
                attempt: openedWatches.add(1, ordering: .relaxed).newValue,
                onNotice: { [self] notice in
                    if notice.isCreated { watchEvents.yield(.opened) }
                    for event in notice.events {
                        if let watchEvent = watchEvent(event) { watchEvents.yield(watchEvent) }
                    }
                },
                onEnd: { continuation.finish() })
            return OpenWatch(end: end, ended: ended)
        } catch {
            throw error.logError
        }
    }

    /// nil for an event without news: the head's key changes with each entry, and removing an old entry leaves no gap.
    private func watchEvent(_ event: (isDeletion: Bool, keyValue: EtcdKeyValue)) -> WatchEvent? {
        let key = String(decoding: event.keyValue.key, as: UTF8.self)
        guard key.hasPrefix(logKeys) else { return key == headKey ? nil : .other }
        if event.isDeletion { return nil }
        // An entry that cannot be decoded becomes `.other`: the follower reads the log, and reports the entry then.
        return (try? entry(event.keyValue)).map { .entry($0) } ?? .other
    }
}

/// Watches that run in parallel, each on its own connection and, if etcd has several members, at different ones. The
/// first to bring an entry counts; ``Follower`` ignores an entry that it has. A watch that ends is opened again as long
/// as another one is open.
private final class TwinWatches: Sendable {
    private let log: EtcdLog
    private let watchEvents: AsyncStream<WatchEvent>.Continuation
    private let open = Mutex(1)

    init(_ log: EtcdLog, _ watchEvents: AsyncStream<WatchEvent>.Continuation) {
        self.log = log
        self.watchEvents = watchEvents
    }

    /// Returns when it is cancelled, which the end of the last watch does, too.
    ///
    /// - Parameter first: is open.
    func run(_ first: OpenWatch) async {
        await withTaskGroup { group in
            group.addTask { await self.keep(first) }
            for _ in 1..<log.watchCount { group.addTask { await self.keep(nil) } }
            // The stream has ended where no watch is open, perhaps before it had anything to cancel.
            await group.next()
            group.cancelAll()
        }
    }

    private func keep(_ opened: OpenWatch?) async {
        var watch = opened
        while !Task.isCancelled {
            if let watch {
                await watch.untilItEnds()
                if closed() == 0 { return watchEvents.finish() }
                await pause()
                if Task.isCancelled { return }
            }
            // The next attempt goes to another member. The client counts its failures.
            watch = try? await log.openWatch(watchEvents)
            if watch == nil { await pause() } else { open.withLock { $0 += 1 } }
        }
        watch?.end()
    }

    /// - Returns: watches that are still open.
    private func closed() -> Int {
        open.withLock { count in
            count -= 1
            return count
        }
    }

    private func pause() async {
        // Cancelled: its caller looks.
        try? await Task.sleep(for: .seconds(.random(in: 1...5)))
    }
}

/// A watch on a connection of its own.
private struct OpenWatch: Sendable {
    let end: @Sendable () -> Void
    let ended: AsyncStream<Never>

    /// Returns when it has ended. A cancelled task ends it.
    func untilItEnds() async {
        for await _ in ended {}
        end()
    }
}
