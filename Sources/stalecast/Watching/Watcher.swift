import Foundation
import StalecastClient
import StalecastOutbound
import StalecastWire

/// Watches topics for ever: connects, resumes where it was, and connects again, after the delays of the Swift client.
///
/// Fails only when the very first connection finds nobody, or when the server refuses for good.
struct Watcher {
    /// Edge's address, asked anew for every connection: after a restart on port 0 it is another one.
    let address: () throws -> ServerAddress
    /// Long-poll instead of a stream.
    let polls: Bool

    private var request: WatchRequest
    private var schedule = ReconnectSchedule(firstDelay: 1, longestDelay: 30)
    private var hasConnected = false
    private let sink: (WatchEvent) async throws -> Void

    init(
        _ request: WatchRequest, polls: Bool, address: @escaping () throws -> ServerAddress,
        sink: @escaping (WatchEvent) async throws -> Void
    ) {
        self.request = request
        self.polls = polls
        self.address = address
        self.sink = sink
    }

    /// Runs until cancelled, the sink throws, or the server refuses for good.
    mutating func run() async throws {
        while true {
            let start = ContinuousClock.now
            do {
                if polls { try await poll() } else { try await stream() }
            } catch let loss as LinkLoss where loss.kind == .dismissed {
                return
            } catch {
                try await pause(after: try loss(error), upFor: start.duration(to: .now) / .seconds(1))
            }
        }
    }

    /// What ended a connection that is to be made again; anything else is thrown.
    private func loss(_ error: any Error) throws -> LinkLoss {
        switch error {
        case let loss as LinkLoss: return loss
        case let failure as OutboundFailure:
            try Task.checkCancellation()
            guard hasConnected else { throw CommandFailure(noAnswerFrom: try address(), failure) }
            return LinkLoss(.broken, "connection lost (\(failure.words))")
        case let failure as CommandFailure where hasConnected && failure.status == .unreachable:
            return LinkLoss(.broken, failure.sentence)
        default: throw error
        }
    }

    private mutating func pause(after loss: LinkLoss, upFor: Double) async throws {
        let wait = schedule.lost(loss, upFor: loss.kind == .closed ? upFor : nil, random: .random(in: 0..<1))
        try await sink(.reconnecting(reason: loss.reason, after: .seconds(wait)))
        try await Task.sleep(for: .seconds(wait))
    }

    // MARK: Server-sent events

    /// No byte for this long means a dead connection: three heartbeats of 25 s, and a bit.
    private static let streamPatience: Duration = .seconds(80)

    /// Always throws, as a stream has no other end.
    private mutating func stream() async throws {
        var opening = try address().request("/v1/events", request.query)
        opening.headers = [OutboundHeader(trusted: "Accept", "text/event-stream")]
        if let cursor = request.cursor { opening.headers.append(try .given("Last-Event-ID", cursor)) }
        var parser = SSEParser(lastEventID: request.cursor ?? "")
        for try await part in HTTPExchange.start(opening, patience: Self.streamPatience) {
            switch part {
            case .bytes(let bytes): try await take(try parser.receive(bytes), cursor: parser.lastEventID)
            case .end(let head, _) where head.status == 200 && head.isEventStream:
                throw LinkLoss(.closed, "the server ended the stream")
            case .end(let head, let refusal): throw judged(HTTPAnswer(head: head, body: refusal))
            }
        }
        throw CancellationError()
    }

    private mutating func take(_ outputs: [SSEParser.Output], cursor: String) async throws {
        for output in outputs {
            hasConnected = true
            switch output {
            case .comment: break
            case .retry(let milliseconds): schedule.serverAsked(for: Double(milliseconds) / 1000)
            case .event(let event):
                if event.lastEventID != request.cursor { request.advance(to: event.lastEventID) }
                try await sink(WatchEvent(event))
            }
        }
        if cursor != request.cursor { request.advance(to: cursor) }
    }

    // MARK: Long-poll

    /// How long the server may hold a poll; it adds up to a sixteenth, and the network some more.
    private static let pollWaitSeconds = 55

    /// An empty answer sooner than this is followed by a pause as long: a cache or a proxy that answers for the server
    /// must not make us spin.
    private static let pollPause: Duration = .seconds(1)

    private mutating func poll() async throws {
        let start = ContinuousClock.now
        // The first poll only asks where we are; from there on nothing is missed.
        let wait = request.cursor == nil ? 0 : Self.pollWaitSeconds
        var query = request.query + [URLQueryItem(name: "wait", value: "\(wait)s")]
        if let cursor = request.cursor { query.append(URLQueryItem(name: "cursor", value: cursor)) }
        let answer = try await HTTPAnswer.of(
            try address().request("/v1/poll", query), patience: .seconds(Self.pollWaitSeconds * 17 / 16 + 20))
        guard answer.head.status == 200 else { throw judged(answer) }
        let json = try answer.json()
        guard let cursor = json["cursor"]?.string, !cursor.isEmpty else {
            throw CommandFailure(.refused, "the answer has no cursor; is something else listening there?")
        }
        let isFirst = !hasConnected
        hasConnected = true
        schedule = schedule.withoutFailures
        if let reset = json["reset"] { try await sink(.reset(reset["reason"]?.string ?? reset.text())) }
        request.advance(to: cursor)
        let messages = json["messages"]?.array ?? []
        for message in messages { try await sink(.message(message.text())) }
        if isFirst { try await sink(.synced(cursor)) }
        if messages.isEmpty, !isFirst, ContinuousClock.now - start < Self.pollPause {
            try await Task.sleep(for: Self.pollPause)
        }
    }

    // MARK: Both

    /// An answer that is neither a stream nor a poll's result: come back later (``LinkLoss``), or give up.
    private func judged(_ answer: HTTPAnswer) -> any Error {
        switch answer.head.status {
        case 204: return LinkLoss(.dismissed, "the server asks never to come back")
        case 200: return CommandFailure(.refused, "the answer is no event stream; is that Edge's address?")
        case 404 where String(decoding: answer.body, as: UTF8.self).contains("no such topic"):
            let topics = request.topics.map(\.description).joined(separator: ", ")
            return CommandFailure(
                .notFound, "\(request.scope) has no such topic: \(topics)",
                advice: "`stalecast topics` lists those there are, with their scopes; --namespace names another.")
        case 408, 429, 500...599:
            let seconds = answer.head["Retry-After"].flatMap { Int($0) }
            return LinkLoss(
                .refused(status: answer.head.status), "the server answered with HTTP status \(answer.head.status)",
                retryAfter: seconds.map { Double(min(max($0, 0), 3600)) })
        default: return ServerRefusal(answer).failure
        }
    }
}

extension HTTPHead {
    fileprivate var isEventStream: Bool {
        self["Content-Type"]?.lowercased().hasPrefix("text/event-stream") ?? false
    }
}

extension WatchEvent {
    fileprivate init(_ event: ServerSentEvent) {
        switch event.type {
        case "synced": self = .synced(event.lastEventID)
        case "reset":
            let json = try? JSONValue.parse(event.data.utf8)  // plain text is shown as it is
            self = .reset(json?["reason"]?.string ?? event.data)
        default: self = .message(event.data)
        }
    }
}
