import NIOHTTP1
package import StalecastHTTP
import StalecastHub
import StalecastWire

/// A complete request, as the router reads it.
package struct FrontRequest {
    package let head: RequestHead
    package let body: [UInt8]

    package init(_ request: Request) {
        head = request.head
        body = request.body
    }

    var isHTTP11: Bool { head.isHTTP11 }
    package var path: Substring { head.path }
    package var query: Substring { head.query }
    /// False when the request cannot be one for a stream; saves the search for what lies behind it.
    var mayBeStream: Bool { !path.hasSuffix(":fetch") }
    var origin: String? { head.headers.first(name: "origin") }

    package var streamHeaders: StreamHeaders { StreamHeaders(head) }
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

extension FrontResponse {
    init(_ error: GoogleError) { self.init(status: error.code, fields: error.fields, body: error.body) }
}
