package import NIOHTTP1

package struct Request: Sendable {
    package let head: RequestHead
    /// Body as it was sent; see ``RequestBody``.
    package let body: [UInt8]

    package init(_ head: RequestHead, body: [UInt8] = []) {
        self.head = head
        self.body = body
    }

    package var method: HTTPMethod { head.method }
    package var path: Substring { head.path }
    package var query: Substring { head.query }

    package subscript(field name: String) -> String? { head.headers.first(name: name) }
}

/// A request's body as it was meant. gzip is found by its magic bytes whatever the headers say: Firebase's JS SDK
/// declares gzip and sends plain text.
package enum RequestBody {
    /// Content of the body, inflated when it begins as gzip does.
    ///
    /// - Parameter cap: the most bytes after inflation.
    /// - Throws: 413 beyond `cap`, 400 for damaged gzip.
    package static func inflated(_ body: [UInt8], cap: Int) throws(GoogleError) -> [UInt8] {
        Inflater.recognises(body) ? try Inflater.inflate(body, cap: cap) : body
    }
}
