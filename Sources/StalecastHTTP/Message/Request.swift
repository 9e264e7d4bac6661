package import NIOHTTP1

/// A complete request.
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

    /// The first field of that name.
    package subscript(field name: String) -> String? { head.headers.first(name: name) }
}

/// A request's body as it was meant. gzip is found by its magic bytes whatever the headers say: Firebase's JS SDK
/// declares gzip and sends plain text.
package enum RequestBody {
    /// Content of a request's body, which is JSON or nothing.
    ///
    /// - Parameter cap: the most bytes after inflation.
    /// - Throws: as ``inflated(_:cap:)``, and 400 for a body of another encoding than gzip, or encoded twice.
    package static func inflated(_ request: Request, cap: Int) throws(GoogleError) -> [UInt8] {
        let body = try inflated(request.body, cap: cap)
        let coding = request[field: "content-encoding"]?.lowercased() ?? "identity"
        let first = body.first { !" \t\r\n".utf8.contains($0) }
        guard coding != "identity", let first, !"{[\"-0123456789tfn".utf8.contains(first) else { return body }
        throw .invalidArgument(
            "The body is neither JSON nor JSON in gzip, although it has a Content-Encoding: encode it with gzip, once, "
                + "or send it without.")
    }

    /// Content of the body, inflated when it begins as gzip does.
    ///
    /// - Parameter cap: the most bytes after inflation.
    /// - Throws: 413 beyond `cap`, 400 for damaged gzip.
    package static func inflated(_ body: [UInt8], cap: Int) throws(GoogleError) -> [UInt8] {
        guard Inflater.recognises(body) else { return body }
        var inflater = Inflater(cap: cap)
        do throws(Inflater.Failure) {
            try inflater.feed(body)
            return try inflater.finish()
        } catch {
            switch error {
            case .tooLarge: throw .bodyTooLarge(limit: cap)
            case .damaged: throw .invalidArgument("The request body begins as gzip but cannot be inflated.")
            }
        }
    }
}
