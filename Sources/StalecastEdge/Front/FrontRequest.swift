package import NIOHTTP1
import StalecastHub
import StalecastWire

/// A complete request as the Front has parsed it.
package struct FrontRequest {
    package let head: HTTPRequestHead
    package let body: [UInt8]

    package init(head: HTTPRequestHead, body: [UInt8] = []) {
        self.head = head
        self.body = body
    }

    var isHTTP11: Bool { head.version.major == 1 && head.version.minor >= 1 }
    package var path: Substring { head.uri.prefix { $0 != "?" && $0 != "#" } }
    package var query: Substring { head.uri.drop { $0 != "?" }.dropFirst().prefix { $0 != "#" } }
    /// False when the request cannot be one for a stream; saves the search for what lies behind it.
    var mayBeStream: Bool { !path.hasSuffix(":fetch") }
    var origin: String? { head.headers.first(name: "origin") }

    /// Why HTTP itself forbids serving the request; nil when it does not.
    package var violation: Refusal? {
        let hosts = head.headers["host"].count
        if hosts > 1 || (hosts == 0 && isHTTP11) {
            return .badRequest("exactly one Host header is needed")
        }
        return head.uri.hasPrefix("/") ? nil : .badRequest("the request target must be a path")
    }

    package var streamHeaders: StreamHeaders {
        StreamHeaders(
            lastEventID: head.headers.first(name: "last-event-id"), origin: origin,
            ifNoneMatch: head.headers.first(name: "if-none-match"), isHTTP11: isHTTP11,
            keepAlive: head.isKeepAlive)
    }
}

/// What the Front does with a request.
enum FrontOutcome {
    case respond(FrontResponse)
    /// An answer to `:fetch` whose bytes are shared.
    case fetched(FetchAnswer)
    case subscribe(StreamRequest)
}

/// A finished answer of the Front.
struct FrontResponse {
    var status = 200
    var type = "application/json"
    /// Whole header lines ending in CRLF.
    var fields = ""
    var body: [UInt8] = []
    /// What it did to an installation, for the tally.
    var installation: FetchTally.InstallationEvent?

    static func refused(_ refusal: Refusal) -> FrontResponse {
        FrontResponse(status: refusal.status, body: ResponseHead.error(refusal))
    }
}
