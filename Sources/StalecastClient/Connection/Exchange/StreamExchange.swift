package import Foundation

/// One HTTP request whose answer is read while it comes.
package struct StreamRequest: Sendable, Hashable {
    package var method: String
    package var url: URL
    /// Names are compared without case; a later one of the same name replaces the former.
    package var headers: [String: String]
    /// Body of the request; nil sends none.
    package var body: [UInt8]?
    /// Whether it goes over Foundation's `URLSession` where libcurl could do it. Default false.
    package var prefersURLSession = false
    /// See ``StalecastOptions/authorityFile``.
    package var authorityFile: String?

    package init(method: String = "GET", url: URL, headers: [String: String] = [:], body: [UInt8]? = nil) {
        (self.method, self.url, self.headers, self.body) = (method, url, headers, body)
    }

    /// Sets a header, whatever the case of a former one's name.
    package mutating func set(_ name: String, _ value: String?) {
        for former in headers.keys where former.lowercased() == name.lowercased() { headers[former] = nil }
        headers[name] = value
    }
}

/// Event of an exchange; in order: at most one head, then bytes, then one end or failure.
package enum StreamEvent: Sendable, Hashable {
    case head(ResponseHead)
    case bytes([UInt8])
    /// The body is complete.
    case end
    /// The exchange failed and is over; the text is for the developer.
    case failed(String)
}

/// An exchange that was started; it lives on the ``LinkLoop``, and so do all calls.
protocol StreamExchange: AnyObject, Sendable {
    /// Ends it without a further event.
    func cancel()
    /// Reads no more until ``resume()``, so that the server notices.
    func pause()
    func resume()
}

typealias StreamHandler = @Sendable (StreamEvent) -> Void

extension LinkLoop {
    /// Starts an exchange over the transport that is fit for its URL. On the loop only; `handler` is called there, but not
    /// before this returned.
    func start(_ request: StreamRequest, _ handler: @escaping StreamHandler) -> any StreamExchange {
        #if os(Linux)
            // Foundation's URLSession on Linux spends most of a core on one open stream, and 4 s to open 1,000.
            if !request.prefersURLSession, let transfers {
                return CurlExchange(request, in: transfers, handler)
            }
        #endif
        return URLSessionExchange(request, on: self, handler)
    }
}
