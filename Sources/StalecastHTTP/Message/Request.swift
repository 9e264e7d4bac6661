package import NIOHTTP1

/// A complete request.
package struct Request: Sendable {
    package let head: RequestHead
    /// As it was sent; see ``RequestBody``.
    package let body: [UInt8]

    package init(_ head: RequestHead, body: [UInt8] = []) {
        self.head = head
        self.body = body
    }

    package var method: HTTPMethod { head.method }
    package var path: Substring { head.path }
    package var query: Substring { head.query }

    /// The first field of that name.
    package subscript(field name: String) -> String? { head.headers.first(name: name) }
}
