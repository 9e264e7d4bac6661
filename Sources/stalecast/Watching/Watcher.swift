import Foundation
import StalecastWire

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Watches topics for ever: connects, resumes where it was, and connects again.
///
/// Fails only when the very first connection finds nobody, or when the server refuses for good.
struct Watcher {
    /// Edge's address, asked anew for every connection.
    let address: () throws -> ServerAddress
    /// Long-poll instead of a stream.
    let polls: Bool

    private var request: WatchRequest
    private var backoff = ReconnectBackoff()
    private var hasConnected = false
    private let sink: (WatchEvent) throws -> Void

    init(
        _ request: WatchRequest, polls: Bool, address: @escaping () throws -> ServerAddress,
        sink: @escaping (WatchEvent) throws -> Void
    ) {
        self.request = request
        self.polls = polls
        self.address = address
        self.sink = sink
    }

    /// Runs until cancelled, the sink throws, or the server refuses for good.
    mutating func run() async throws {
        while true {
            let wait: Duration
            do {
                let end = polls ? try await poll() : try await stream()
                if case .forGood = end { return }
                wait = try pause(after: end)
            } catch let error as URLError {
                wait = try pause(after: error)
            } catch let failure as CommandFailure where hasConnected && failure.status == .unreachable {
                wait = try pauseAfterFailure(failure.sentence)
            }
            if wait > .zero { try await Task.sleep(for: wait) }
        }
    }

    private mutating func pause(after end: ConnectionEnd) throws -> Duration {
        switch end {
        case .clean where polls: return .zero
        case .clean:
            try sink(.reconnecting(reason: "the server ended the stream", after: backoff.afterEnd()))
            return backoff.afterEnd()
        case .refusedForNow(let reason, let retryAfter): return try pauseAfterFailure(reason, asked: retryAfter)
        case .forGood: return .zero
        }
    }

    private mutating func pause(after error: URLError) throws -> Duration {
        if error.code == .cancelled { throw CancellationError() }
        if !hasConnected { throw CommandFailure(noAnswerFrom: try address(), error) }
        return try pauseAfterFailure("connection lost (\(error.reason))")
    }

    private mutating func pauseAfterFailure(_ reason: String, asked: Duration? = nil) throws -> Duration {
        var generator = SystemRandomNumberGenerator()
        let wait = backoff.afterFailure(asked: asked, using: &generator)
        try sink(.reconnecting(reason: reason, after: wait))
        return wait
    }

    // MARK: Server-sent events

    /// No byte for this long means a dead connection, in seconds: three heartbeats of 25 s, and a bit.
    private static let streamIdleSeconds = 80.0

    private mutating func stream() async throws -> ConnectionEnd {
        var request = try urlRequest("/v1/events", query: request.query, idleSeconds: Self.streamIdleSeconds)
        request.setValue("text/event-stream", forHTTPHeaderField: "Accept")
        if let cursor = self.request.cursor { request.setValue(cursor, forHTTPHeaderField: "Last-Event-ID") }
        var parser = SSEParser(lastEventID: self.request.cursor ?? "")
        var refusal: (head: HTTPHead, body: [UInt8])?
        for try await part in HTTPTransfer.start(request) {
            switch part {
            case .head(let head) where head.status == 200 && head.isEventStream:
                hasConnected = true
                backoff.connected()
            case .head(let head): refusal = (head, [])
            case .bytes(let bytes) where refusal != nil: refusal?.body += bytes
            case .bytes(let bytes): try take(try parser.receive(bytes), cursor: parser.lastEventID)
            }
        }
        try Task.checkCancellation()
        return try refusal.map { try judge(HTTPAnswer(head: $0.head, body: $0.body)) } ?? .clean
    }

    private mutating func take(_ outputs: [SSEParser.Output], cursor: String) throws {
        for output in outputs {
            switch output {
            case .comment: break
            case .retry(let milliseconds): backoff.asked(milliseconds: milliseconds)
            case .event(let event):
                if event.lastEventID != request.cursor { request.advance(to: event.lastEventID) }
                try sink(WatchEvent(event))
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

    private mutating func poll() async throws -> ConnectionEnd {
        let start = ContinuousClock.now
        // The first poll only asks where we are; from there on nothing is missed.
        let wait = request.cursor == nil ? 0 : Self.pollWaitSeconds
        var query = request.query + [URLQueryItem(name: "wait", value: "\(wait)s")]
        if let cursor = request.cursor { query.append(URLQueryItem(name: "cursor", value: cursor)) }
        let limit = Double(Self.pollWaitSeconds) * 17 / 16 + 20
        let answer = try await HTTPAnswer.of(try urlRequest("/v1/poll", query: query, idleSeconds: limit))
        guard answer.head.status == 200 else { return try judge(answer) }
        let json = try answer.json()
        guard let cursor = json["cursor"]?.string, !cursor.isEmpty else {
            throw CommandFailure(.refused, "the answer has no cursor; is something else listening there?")
        }
        let isFirst = !hasConnected
        hasConnected = true
        backoff.connected()
        if let reset = json["reset"] { try sink(.reset(reset["reason"]?.string ?? reset.text())) }
        request.advance(to: cursor)
        let messages = json["messages"]?.array ?? []
        for message in messages { try sink(.message(message.text())) }
        if isFirst { try sink(.synced(cursor)) }
        if messages.isEmpty, !isFirst, ContinuousClock.now - start < Self.pollPause {
            try await Task.sleep(for: Self.pollPause)
        }
        return .clean
    }

    // MARK: Both

    private func urlRequest(_ path: String, query: [URLQueryItem], idleSeconds: Double) throws -> URLRequest {
        let base = try address().url
        guard var parts = URLComponents(string: base + path) else {
            throw CommandFailure(.usage, "\(base)\(path) is not a URL")
        }
        parts.queryItems = query
        guard let url = parts.url else { throw CommandFailure(.usage, "\(base)\(path) is not a URL") }
        var request = URLRequest(url: url)
        request.timeoutInterval = idleSeconds
        return request
    }

    /// An answer that is neither a stream nor a poll's result: come back later, never, or give up.
    private func judge(_ answer: HTTPAnswer) throws -> ConnectionEnd {
        switch answer.head.status {
        case 204: return .forGood
        case 200: throw CommandFailure(.refused, "the answer is no event stream; is that Edge's address?")
        case 404:
            let topics = request.topics.map(\.description).joined(separator: ", ")
            throw CommandFailure(
                .notFound, "the server knows no such topic: \(topics)",
                advice: "`stalecast topics` lists those it knows.")
        case 408, 429, 500...599:
            let seconds = answer.head["Retry-After"].flatMap { Int($0) }
            return .refusedForNow(
                reason: "the server answered with HTTP status \(answer.head.status)",
                retryAfter: seconds.map { .seconds(min(max($0, 0), 3600)) })
        default: throw ServerRefusal(answer).failure
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
