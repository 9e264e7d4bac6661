import Foundation
import StalecastClient
import StalecastOutbound
import StalecastWire

/// Watches topics for ever with the Swift client's attempts and delays: connects, resumes where it was, connects again.
///
/// Fails only when the very first connection finds no server, or when the server refuses for good.
struct Watcher {
    /// Edge's address, asked again for every connection: after a restart on port 0 it is another one.
    let address: () throws -> ServerAddress
    /// Long-poll instead of a stream.
    let polls: Bool

    private var request: Watcher.Request
    private var schedule = ReconnectSchedule(firstDelay: 1, longestDelay: 30)
    private var hasConnected = false
    /// `synced` was reported on this connection. Each poll with an answer says it again.
    private var isSynced = false
    private let sink: (Watcher.Event) async throws -> Void

    /// Seconds that the server may hold a poll.
    private static let pollWait: TimeInterval = 55
    /// An empty answer sooner than this is followed by a pause as long: a cache or a proxy that answers for the server
    /// must not make us spin.
    private static let pollPause: Duration = .seconds(1)

    /// The Swift client's.
    private static let limits = StalecastClient.ConnectionOptions()

    init(
        _ request: Watcher.Request, polls: Bool, address: @escaping () throws -> ServerAddress,
        sink: @escaping (Watcher.Event) async throws -> Void
    ) {
        (self.request, self.polls, self.address, self.sink) = (request, polls, address, sink)
    }

    /// Runs until cancelled, the sink throws, or the server refuses for good or asks never to come back.
    mutating func run() async throws {
        var poll: PollDialect?
        while true {
            do {
                let address = try address()
                do {
                    if polls {
                        poll = try await follow(
                            try poll
                                ?? PollDialect(
                                    address.streamRequest("/v1/poll", request.query), cursor: request.cursor,
                                    wait: Self.pollWait), silence: Self.pollWait)
                    } else {
                        _ = try await follow(
                            EventStreamDialect(
                                address.streamRequest("/v1/events", request.query), lastEventID: request.cursor),
                            silence: Self.limits.heartbeatLimit)
                    }
                } catch let end as End {
                    poll = nil
                    if end.loss.kind == .dismissed { return }
                    try await giveUp(after: end.loss, at: address)
                    try await pause(after: end.loss, upFor: end.upFor)
                }
            } catch let failure as CommandFailure where hasConnected && failure.status == .unreachable {
                // A daemon that restarts has no address for a while.
                try await pause(after: LinkLoss(.broken, failure.sentence), upFor: nil)
            }
        }
    }

    /// Target of the watch and its start.
    struct Request: Sendable {
        let topics: [TopicName]
        /// Scope of the messages; a topic's other scopes are not heard.
        let scope: Scope
        /// Resume after this cursor; nil begins now.
        var cursor: String?
        /// The version held, so that a STALE comes at once when it is older; nil without. Counts until a cursor came.
        var have: Int64?

        /// Resumes after `cursor` from now on, which says more than the version held at the beginning.
        mutating func advance(to cursor: String) {
            guard !cursor.isEmpty else { return }
            self.cursor = cursor
            have = nil
        }

        /// The query of `/v1/events`, `/v1/poll` and `/v1/state`.
        var query: RequestQuery {
            let rest: RequestQuery = [
                "project": scope.project.description, "namespace": scope.namespace.description,
                "have": have.map { String($0) },
            ]
            return topics.reduce(rest) { $0 + ["topic": $1.description] }
        }
    }

    /// End of a connection.
    private struct End: Error {
        let loss: LinkLoss
        var upFor: TimeInterval?
    }

    /// Passes on what one attempt brings.
    ///
    /// - Returns: the dialect for the next one, after a poll that was answered.
    /// - Throws: ``End``, and what the sink throws.
    private mutating func follow<Dialect: LinkDialect>(
        _ dialect: Dialect, silence: TimeInterval
    ) async throws -> Dialect where Dialect.Output == EventStreamDialect.Output {
        let limits = LinkLimits(opening: Self.limits.openingLimit, silence: silence)
        for await (report, dialect) in LinkAttempt.reports(of: dialect, limits: limits) {
            switch report {
            case .open: hasConnected = true
            case .step(.output(.event(let event))):
                request.advance(to: event.lastEventID)
                guard let event = Watcher.Event(event) else { continue }
                if case .synced = event {
                    if isSynced { continue }
                    isSynced = true
                }
                try await sink(event)
            case .step(.output(.comment)), .step(.pause): break
            case .step(.retry(let delay)): schedule.serverAsked(for: delay)
            case .answered(let isNews, let seconds):
                schedule = schedule.withoutFailures
                if !isNews, .seconds(seconds) < Self.pollPause { try await Task.sleep(for: Self.pollPause) }
                return dialect
            case .lost(let loss, let upFor): throw End(loss: loss, upFor: upFor)
            case .dismissed: throw End(loss: LinkLoss(.dismissed, "the server asks never to come back"))
            }
        }
        try Task.checkCancellation()
        throw End(loss: LinkLoss(.broken, "what came was printed too slowly"))
    }

    private mutating func pause(after loss: LinkLoss, upFor: TimeInterval?) async throws {
        isSynced = false
        let wait = schedule.lost(loss, upFor: upFor, random: .random(in: 0..<1))
        try await sink(.reconnecting(reason: loss.reason, after: .seconds(wait)))
        try await Task.sleep(for: .seconds(wait))
    }

    /// Throws what is to be said instead of connecting again. An attempt does not keep the text of a refusal, nor does
    /// it tell why no server answers: the same question is asked once more, as the other commands ask theirs.
    private func giveUp(after loss: LinkLoss, at address: ServerAddress) async throws {
        switch loss.kind {
        case .closed, .dismissed: return
        case .broken, .silent: if hasConnected { return }
        case .foreign: throw CommandFailure(.refused, "\(loss.reason); is that Edge's address?")
        case .refused(let status): if ReconnectSchedule.isPassing(status) { return }
        }
        let answer: HTTPAnswer
        do {
            let question = try address.request("/v1/poll", request.query + ["wait": "0"])
            answer = try await HTTPAnswer.of(question, patience: .seconds(20))
        } catch let failure as OutboundFailure {
            try Task.checkCancellation()
            throw CommandFailure(noAnswerFrom: address, failure)
        }
        if answer.status < 300 || ReconnectSchedule.isPassing(answer.status) { return }
        guard answer.status == 404, String(decoding: answer.body, as: UTF8.self).contains("no such topic") else {
            throw ServerRefusal(answer).failure
        }
        let topics = request.topics.map(\.description).joined(separator: ", ")
        throw CommandFailure(
            .notFound, "\(request.scope) has no such topic: \(topics)",
            advice: "`stalecast topics` lists those there are, with their scopes; --namespace names another.")
    }
}

extension LinkAttempt {
    /// Reports waiting for a slow reader, at most; then the attempt ends, and the next one resumes without loss.
    private static var maxWaiting: Int { 4096 }

    /// Reports of one attempt, each with the dialect as it is then; over with the last report, or when they are not
    /// read.
    fileprivate static func reports(of dialect: Dialect, limits: LinkLimits) -> AsyncStream<(Report, Dialect)> {
        AsyncStream(bufferingPolicy: .bufferingOldest(maxWaiting)) { reports in
            let loop = LinkLoop.shared
            let attempt = LinkAttempt(dialect, limits: limits, loop: loop) { attempt, report in
                if case .dropped = reports.yield((report, attempt.dialect)) { reports.finish() }
                switch report {
                case .lost, .answered, .dismissed: reports.finish()
                case .open, .step: break
                }
            }
            reports.onTermination = { _ in loop.perform { attempt.cancel() } }
            loop.perform { attempt.start() }
        }
    }
}

extension Watcher.Event {
    /// nil for an event that means nothing to the user.
    fileprivate init?(_ event: ServerSentEvent) {
        let data = JSONValue.ifValid(event.data.utf8)  // plain text is shown as it is
        switch event.type {
        case "message": self = .message(event.data, cursor: event.lastEventID)
        case "synced": self = .synced(event.lastEventID)
        case "reset": self = .reset(data?["reason"]?.string ?? event.data)
        case "unknown-topics":
            self = .remark(
                "no such topic: \((data?["topics"]?.array ?? []).compactMap(\.string).joined(separator: ", "))")
        case "auth": self = .remark("the credential: \(data?["type"]?.string ?? event.data)")
        default: return nil
        }
    }
}
