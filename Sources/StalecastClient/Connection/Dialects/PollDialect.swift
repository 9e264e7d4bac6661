package import Foundation
import StalecastWire

/// Long-poll, for networks that let no stream through: `GET /v1/poll`, again and again. What an answer holds comes as
/// the events that a stream would have brought.
package struct PollDialect: LinkDialect {
    package typealias Output = EventStreamDialect.Output

    /// The longest answer that is read, in bytes.
    private static let maxAnswerBytes = 4 << 20

    /// Request without cursor and wait.
    var base: StreamRequest
    private(set) var cursor: String?
    private let wait: TimeInterval
    /// The first, also after a failure, is answered at once, which tells that polls get through.
    private var isFirst = true
    private var answer: [UInt8] = []

    /// - Parameters:
    ///   - cursor: where to begin; nil begins now.
    ///   - wait: how long the server may hold a poll, in seconds; at most a day.
    package init(_ base: StreamRequest, cursor: String?, wait: TimeInterval) {
        self.base = base
        self.cursor = cursor
        self.wait = max(0, min(wait, 86_400))
    }

    package var opening: LinkOpening { .completeAnswer }

    /// The server may hold a poll a sixteenth longer than it was asked to.
    package var hold: TimeInterval { isFirst ? 0 : wait * 17 / 16 }

    package func request() -> PlannedRequest {
        var request = base
        var items = [URLQueryItem(name: "wait", value: isFirst ? "0" : "\(Int(wait * 1000))ms")]
        if let cursor { items.append(URLQueryItem(name: "cursor", value: cursor)) }
        request.url = request.url.adding(items)
        request.set("Accept", "application/json")
        request.set("Cache-Control", "no-cache")
        return .ready(request)
    }

    package mutating func begin(_ head: ResponseHead) throws(LinkLoss) {
        answer = []
        guard head.status == 200, head.mediaType == "application/json" else {
            throw LinkLoss(.foreign, "the answer is \(head.status) \(head.mediaType), not that of a long-poll")
        }
    }

    package mutating func receive(_ bytes: [UInt8]) throws(LinkLoss) -> [DialectStep<Output>] {
        answer += bytes
        guard answer.count <= Self.maxAnswerBytes else { throw LinkLoss(.foreign, "the answer is too long") }
        return []
    }

    package mutating func end() throws(LinkLoss) -> DialectEnd<Output> {
        let object: JSONObject?
        do throws(JSONError) { object = try JSONValue.parse(answer).object } catch {
            throw LinkLoss(.foreign, "the answer is not JSON: \(error)")
        }
        guard let object, let cursor = object["cursor"]?.string, !cursor.isEmpty,
            let messages = object["messages"]?.array
        else { throw LinkLoss(.foreign, "the answer has no cursor or no messages") }
        var events: [ServerSentEvent] = []
        if let reset = object["reset"] { events.append(event("reset", reset)) }
        // Every answer names the unknown topics again, and a stream would have named them once.
        if let unknown = object["unknownTopics"], isFirst, unknown.array?.isEmpty == false {
            events.append(event("unknown-topics", ["topics": unknown]))
        }
        events += messages.map { event("message", $0) }
        let isNews = isFirst || !messages.isEmpty && cursor != self.cursor
        if isFirst || cursor != self.cursor { events.append(event("synced", ["cursor": .string(cursor)], id: cursor)) }
        (self.cursor, isFirst) = (cursor, false)
        return .answered(events.map { .output(.event($0)) }, isNews: isNews)
    }

    private func event(_ type: String, _ data: JSONValue, id: String = "") -> ServerSentEvent {
        ServerSentEvent(type: type, data: String(decoding: data.encoded(), as: UTF8.self), lastEventID: id)
    }

    package mutating func lost() { isFirst = true }
}

extension URL {
    /// The URL with more in its query.
    func adding(_ items: [URLQueryItem]) -> URL {
        guard var parts = URLComponents(url: self, resolvingAgainstBaseURL: true) else { return self }
        parts.queryItems = (parts.queryItems ?? []) + items
        // A plus sign is a blank to most servers, and URLComponents leaves it alone.
        parts.percentEncodedQuery = parts.percentEncodedQuery?.replacingOccurrences(of: "+", with: "%2B")
        return parts.url ?? self
    }
}
