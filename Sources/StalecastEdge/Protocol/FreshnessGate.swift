import NIOCore
import NIOHTTP1
import StalecastHTTP
import StalecastHub
package import StalecastWire

/// Gate that a node of a cluster asks before it answers: versions come to it from a log that other nodes write to as
/// well.
package protocol FreshnessGate: Sendable {
    /// Whether everything that was in the log when this was called is fetchable here.
    ///
    /// - Parameter done: called once, on any thread.
    func newest(_ done: @escaping @Sendable (Freshness) -> Void)
    /// Waits for a sequence that a client has seen elsewhere; about 2 s at most, 5 s far from the log.
    func reached(_ sequence: CommitSequence, _ done: @escaping @Sendable (Freshness) -> Void)
}

/// Freshness of a replica at the moment of an answer.
package enum Freshness: Sendable, Hashable {
    case fresh
    /// Freshness that was not confirmed for so many seconds.
    case unverified(seconds: Int)
    case refused
    /// The log ends before the sequence: no history that is known here has it.
    case beyondTheLog
}

extension TopicBoard {
    /// The sequence of a cursor of this history that is not here yet; nil for any other.
    func ahead(_ cursor: String?) -> CommitSequence? {
        guard let cursor = cursor.flatMap(Cursor.init), cursor.epoch == epoch, cursor.sequence > headSequence else {
            return nil
        }
        return cursor.sequence
    }
}

extension FrontConnection {
    /// Answers when the node may: a fetch is never older than what its client was told at another node.
    func routeWhenFresh(_ request: FrontRequest, _ gate: any FreshnessGate) {
        guard request.asksForValues else { return route(request) }
        let cursor = request.head.headers.first(name: "x-stalecast-cursor") ?? request.cursor
        let known = cursor.flatMap(Cursor.init).flatMap { $0.epoch == shard.board.epoch ? $0.sequence : nil }
        if let known, known <= shard.board.headSequence { return route(request) }
        let done = whenHere { connection, freshness in
            var request = request
            switch freshness {
            case .fresh, .beyondTheLog: return connection.route(request)
            case .refused:
                let response = FrontResponse(.notFresh)
                connection.count(response, to: request)
                connection.respond(response, to: request)
            case .unverified(let seconds):
                request.unverified = seconds
                connection.route(request)
            }
        }
        if let known { gate.reached(known, done) } else { gate.newest(done) }
    }

    /// A client that has been told of more elsewhere is told nothing older here: it waits.
    ///
    /// - Returns: false when there is nothing to wait for.
    func waits(_ subscription: StreamRequest, _ request: FrontRequest) -> Bool {
        guard let gate = shard.freshness, !request.isAwaited,
            let sequence = shard.board.ahead(subscription.resume.cursor)
        else { return false }
        gate.reached(
            sequence,
            whenHere { connection, freshness in
                var request = request
                // `proceed` leads back here: a sequence beyond every log must not be waited for again.
                request.isAwaited = freshness == .beyondTheLog
                switch freshness {
                case .fresh, .beyondTheLog: connection.proceed(request)
                case .refused, .unverified: connection.refuseForNow(request)
                }
            })
        return true
    }

    private func whenHere(
        _ body: @escaping @Sendable (FrontConnection, Freshness) -> Void
    ) -> @Sendable (Freshness) -> Void {
        { [self, loop = shard.loop] freshness in
            loop.execute { [self] in whenCurrent { body($0, freshness) } }
        }
    }
}

extension GoogleError {
    fileprivate static let notFresh = GoogleError(
        503, "UNAVAILABLE", "this node does not know whether its version is the newest; try again"
    ).with("Retry-After", "1")
}

extension FrontRequest {
    /// Cursor of the query, as a poll has it.
    fileprivate var cursor: String? {
        for member in query.split(separator: "&") where member.hasPrefix("cursor=") {
            return String(member.dropFirst("cursor=".count))
        }
        return nil
    }
}
