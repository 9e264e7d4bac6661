import Foundation
package import StalecastWire

/// Server-sent events: one long answer, resumed by `Last-Event-ID`.
package struct EventStreamDialect: LinkDialect {
    package enum Output: Sendable, Hashable {
        case event(ServerSentEvent)
        /// A comment's text without the colon.
        case comment(String)
    }

    /// The longest event that is read, in bytes.
    static let maxEventBytes = 16 << 20

    /// Request without the fields that this dialect adds.
    package var base: StreamRequest
    private var parser: SSEParser

    package init(_ base: StreamRequest, lastEventID: String?) {
        self.base = base
        parser = SSEParser(lastEventID: lastEventID ?? "", maxBytes: Self.maxEventBytes)
    }

    /// Id of the last complete event; empty for none.
    package var lastEventID: String { parser.lastEventID }

    package var opening: LinkOpening { .firstBytes }

    package func request() -> PlannedRequest {
        var request = base
        let given = Set(base.headers.keys.map { $0.lowercased() })
        if !given.contains("accept") { request.set("Accept", "text/event-stream") }
        if !given.contains("cache-control") { request.set("Cache-Control", "no-cache") }
        request.set("Last-Event-ID", lastEventID.isEmpty ? nil : lastEventID)
        return .ready(request)
    }

    package mutating func begin(_ head: ResponseHead) throws(LinkLoss) {
        guard head.status == 200 else {
            throw LinkLoss(.refused(status: head.status), "the server answered HTTP \(head.status)")
        }
        guard head.mediaType == "text/event-stream" else {
            throw LinkLoss(.foreign, "the answer is \(head.mediaType), not an event stream")
        }
        // An event that was cut off is forgotten, and its id with it.
        parser = SSEParser(lastEventID: parser.lastEventID, maxBytes: Self.maxEventBytes)
    }

    package mutating func receive(_ bytes: [UInt8]) throws(LinkLoss) -> [DialectStep<Output>] {
        do throws(SSEParser.TooLong) {
            return try parser.receive(bytes).map { output in
                switch output {
                case .event(let event): .output(.event(event))
                case .comment(let text): .output(.comment(text))
                case .retry(let milliseconds): .retry(TimeInterval(milliseconds) / 1000)
                }
            }
        } catch {
            throw LinkLoss(.broken, "an event is longer than \(error.maxBytes) bytes")
        }
    }

    package func end() -> DialectEnd<Output> { .closed }
}
