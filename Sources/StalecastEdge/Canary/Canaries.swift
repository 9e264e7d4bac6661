import CLinux
import Glibc
import NIOCore
import NIOPosix
import StalecastHub
package import StalecastWire
import Synchronization

/// A subscriber of each scope inside this process, over real sockets: when a message that went through a loop of Edge
/// was there, and when the fetch that it asks for was answered. Nothing happens between two versions.
///  It is in no audience and in no figure of streams, connections or fetches. It has no credential either, because both
/// ends of its sockets are made here: no other client can come in through them. So TLS and the network are not
/// measured.
package final class Canaries: Sendable {
    package struct Observation: Sendable, Hashable {
        package let version: VersionNumber
        /// Seconds from the announcement until the message was there, and until the answer of the fetch was; nil while
        /// it was not, and where the scope's clients are served elsewhere. Both leave out the time for which the loop
        /// held the message back because the last one was younger than ``CanarySeats/pace``.
        package fileprivate(set) var received: Double?
        package fileprivate(set) var fetched: Double?
    }

    private struct State {
        var scopes: Set<Scope> = []
        /// The other ends, which loops of Edge write to.
        var ends: [Scope: CanaryEnd] = [:]
        var scans: [Scope: CanaryScan] = [:]
        var announced: [Scope: (sequence: CommitSequence, version: VersionNumber, at: UInt64)] = [:]
        var observations: [Scope: Observation] = [:]
        /// Begin of each scope's last fetch, and the scopes that wait for their next.
        var fetchedAt: [Scope: UInt64] = [:]
        var planned: Set<Scope> = []
    }

    private let state = Mutex(State())
    private let loop: any EventLoop
    private let epoch: Epoch
    /// Takes the end that a loop of Edge writes messages to; and one that the Front reads a fetch from.
    private let seat: @Sendable (Scope, CanaryEnd) -> Void
    private let fetch: @Sendable (Int32) -> Void

    /// Scopes that have one; two descriptors each.
    private static let most = 64
    /// Nanoseconds between two fetches of a scope at least: a fetch costs as much as a publish, and versions that
    /// follow each other faster are seen by one.
    private static let fetchInterval: UInt64 = 100_000_000

    /// - Parameter loop: where its own ends are read.
    init(
        loop: any EventLoop, epoch: Epoch, seat: @escaping @Sendable (Scope, CanaryEnd) -> Void,
        fetch: @escaping @Sendable (Int32) -> Void
    ) {
        (self.loop, self.epoch, self.seat, self.fetch) = (loop, epoch, seat, fetch)
    }

    package var observations: [Scope: Observation] { state.withLock { $0.observations } }

    /// Called with the hub's lock held, before the loops hear of it. The first version of a scope makes its canary.
    func announced(_ announcement: TopicBoard.Announcement) {
        let change = announcement.change
        guard announcement.encodedMessages.contains(where: { !$0.encodedMessage.isInvalidation }) else { return }
        state.withLock {
            $0.announced[change.scope] = (change.sequence, change.version, announcement.announcedAt)
        }
        begin(change.scope)
    }

    func begin(_ scope: Scope) {
        let isNew = state.withLock { $0.scopes.count < Self.most && $0.scopes.insert(scope).inserted }
        guard isNew else { return }
        loop.execute { [self] in
            let give = { [self] (socket: Int32) in
                let end = CanaryEnd(socket)
                state.withLock { $0.ends[scope] = end }
                seat(scope, end)
            }
            let isThere = connect(give, CanaryReader { [self] in received($0, of: scope) })
            if !isThere { ended(scope) }
        }
    }

    /// The scope's next version tries again.
    private func ended(_ scope: Scope) {
        state.withLock { state in
            state.scopes.remove(scope)
            state.ends[scope] = nil
            state.scans[scope] = nil
        }
    }

    /// Makes a pair of sockets, gives one end to a loop and reads the other.
    ///
    /// - Returns: false when there are no descriptors left; then there is no canary.
    @discardableResult
    private func connect(
        _ give: (Int32) -> Void, _ reader: CanaryReader, _ isThere: @escaping @Sendable (any Channel) -> Void = { _ in }
    ) -> Bool {
        var ends: (Int32, Int32) = (-1, -1)
        guard
            withUnsafeMutableBytes(of: &ends, { stalecast_loopback_pair($0.bindMemory(to: Int32.self).baseAddress) })
                == 0
        else { return false }
        give(ends.0)
        let own = ends.1
        ClientBootstrap(group: loop)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(reader) }
            }
            .withConnectedSocket(own).whenSuccess(isThere)
        return true
    }

    // MARK: What comes

    /// Takes bytes of the stream, on the loop; the last event's id says what version they are of.
    private func received(_ bytes: [UInt8]?, of scope: Scope) {
        let now = stalecast_monotonic_ns()
        guard let bytes else { return ended(scope) }
        let wait = state.withLock { state -> UInt64? in
            guard let cursor = state.scans[scope, default: CanaryScan()].take(bytes), cursor.epoch == epoch,
                let announced = state.announced[scope], announced.sequence == cursor.sequence
            else { return nil }
            let heldBack = state.ends[scope]?.heldBack.load(ordering: .relaxed) ?? 0
            state.observations[scope] = Observation(
                version: announced.version, received: Self.seconds(announced.at + heldBack, now))
            guard state.planned.insert(scope).inserted else { return nil }
            let next = state.fetchedAt[scope].map { $0 + Self.fetchInterval } ?? 0
            return next - min(next, now)
        }
        guard let wait else { return }
        if wait == 0 { return fetch(scope) }
        loop.scheduleTask(in: .nanoseconds(Int64(wait))) { [self] in fetch(scope) }
    }

    private func fetch(_ scope: Scope) {
        let began = stalecast_monotonic_ns()
        let version = state.withLock { state in
            state.planned.remove(scope)
            state.fetchedAt[scope] = began
            return state.observations[scope]?.version
        }
        guard let version else { return }
        let answer = CanaryAnswer(version)
        let reader = CanaryReader { [self] bytes in
            if let bytes { return answer.add(bytes) }
            guard answer.isGood else { return }
            let now = stalecast_monotonic_ns()
            state.withLock { state in
                guard let seen = state.observations[scope], seen.version == version else { return }
                // A wait for the fetch's turn is no part of what a client sees.
                state.observations[scope]?.fetched = (seen.received ?? 0) + Self.seconds(began, now)
            }
        }
        let body = #"{"appId":"1:0:web:canary","appInstanceId":"canary","appInstanceIdToken":"t"}"#
        let request =
            "POST /v1/projects/\(scope.project)/namespaces/\(scope.namespace):fetch HTTP/1.1\r\nHost: localhost\r\n"
            + "Content-Type: application/json\r\nConnection: close\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
        connect(fetch, reader) { $0.writeAndFlush(ByteBuffer(string: request), promise: nil) }
    }

    private static func seconds(_ start: UInt64, _ now: UInt64) -> Double { Double(now - min(start, now)) / 1e9 }
}

/// Finds the ids of events in a stream whose pieces may end anywhere: after a burst a read ends where its buffer does.
package struct CanaryScan: Sendable {
    /// Line whose end has not come.
    private var rest: [UInt8] = []
    /// More than any message has.
    private static let longestLine = 8192

    package init() {}

    /// - Returns: the last id whose line has ended; nil where none has.
    package mutating func take(_ bytes: [UInt8]) -> Cursor? {
        rest += bytes
        guard let end = rest.lastIndex(of: 0x0A) else {
            if rest.count > Self.longestLine { rest = [] }
            return nil
        }
        let line = rest[..<end].split(separator: 0x0A).last { $0.starts(with: "id: ".utf8) }
        rest.removeFirst(end + 1)
        return line.flatMap { Cursor(String(decoding: $0.dropFirst(4), as: UTF8.self)) }
    }
}

/// First and last bytes of an answer. The bytes between them are dropped.
///
/// `@unchecked Sendable`: confined to the loop that reads it.
private final class CanaryAnswer: @unchecked Sendable {
    private static let ends = 128
    private let wanted: [UInt8]
    private var head: [UInt8] = []
    private var tail: [UInt8] = []

    init(_ version: VersionNumber) { wanted = Array("\"templateVersion\":\"\(version)\"".utf8) }

    func add(_ bytes: [UInt8]) {
        if head.count < Self.ends { head += bytes.prefix(Self.ends - head.count) }
        tail = (tail + bytes).suffix(Self.ends)
    }

    /// Whether the answer is of the wanted version. A newer one has a canary's fetch of its own.
    var isGood: Bool {
        guard head.starts(with: "HTTP/1.1 200".utf8) else { return false }
        return tail.indices.contains { tail[$0...].starts(with: wanted) }
    }
}

/// Says what comes, and nil at the end.
private final class CanaryReader: ChannelInboundHandler, Sendable {
    typealias InboundIn = ByteBuffer

    private let take: @Sendable ([UInt8]?) -> Void

    init(_ take: @escaping @Sendable ([UInt8]?) -> Void) { self.take = take }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        take(Array(unwrapInboundIn(data).readableBytesView))
    }

    func channelInactive(context: ChannelHandlerContext) { take(nil) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
