import Foundation

/// Finds the target to which an answer sends a request (RFC 9110 §15.4, and Fetch's rules about method and
/// credentials).
package enum Redirect {
    /// Most redirects in a row that are followed.
    private static let longestChain = 20

    /// Reason why a redirect is not followed; `description` is for the developer.
    package struct Refused: Error, CustomStringConvertible { package let description: String }

    package static func isRedirect(_ status: Int) -> Bool { [301, 302, 303, 307, 308].contains(status) }

    /// The request that follows from a redirecting answer.
    ///
    /// What may be a secret stays with its origin: over to another one go only the headers that say what is asked for,
    /// because an app's own may be anything. A body stays with its method; encryption is not left.
    ///
    /// - Parameter hop: number of the redirect since the first request, from 1.
    package static func next(
        _ request: StreamRequest, _ head: ResponseHead, hop: Int = 1
    ) throws(Refused) -> StreamRequest {
        guard hop <= longestChain else { throw Refused(description: "more than \(longestChain) redirects in a row") }
        guard let location = head.headers["location"], !location.isEmpty else {
            throw Refused(description: "the server redirects (\(head.status)) but does not say where to")
        }
        guard let url = URL(string: location, relativeTo: request.url)?.absoluteURL, let host = url.host, !host.isEmpty,
            let scheme = url.scheme?.lowercased(), scheme == "http" || scheme == "https"
        else { throw Refused(description: "the server redirects to \(location), which is not an http or https URL") }
        guard scheme == "https" || request.url.scheme?.lowercased() != "https" else {
            throw Refused(description: "the server redirects from https to \(location), which is not encrypted")
        }
        var next = request
        next.url = url
        // RFC 9110 §15.4: 303 asks for GET; after 301 and 302 a POST becomes GET, as in Fetch.
        if head.status == 303 && request.method != "HEAD" || head.status < 303 && request.method == "POST" {
            next.method = "GET"
            next.body = nil
            for name in ["Content-Type", "Content-Encoding", "Content-Length"] { next.set(name, nil) }
        }
        if !isSameOrigin(url, request.url) {
            for name in next.headers.keys where !travels(name) { next.set(name, nil) }
        }
        return next
    }

    private static func travels(_ name: String) -> Bool {
        ["accept", "cache-control", "content-type", "last-event-id", "x-accept-response-streaming"].contains(
            name.lowercased())
    }

    private static func isSameOrigin(_ left: URL, _ right: URL) -> Bool {
        left.scheme?.lowercased() == right.scheme?.lowercased() && left.host?.lowercased() == right.host?.lowercased()
            && port(left) == port(right)
    }

    private static func port(_ url: URL) -> Int { url.port ?? (url.scheme?.lowercased() == "https" ? 443 : 80) }
}
