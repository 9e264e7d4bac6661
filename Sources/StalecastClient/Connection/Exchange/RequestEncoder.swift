import Foundation

/// A request's bytes in HTTP/1.1.
enum RequestEncoder {
    /// One request on a connection that is closed after its answer. A header whose name or value would break the
    /// framing is left out.
    static func encode(_ request: StreamRequest) -> [UInt8] {
        var request = request
        request.set("Host", authority(of: request.url))
        request.set("Connection", "close")
        request.set("Accept-Encoding", "identity")
        if let body = request.body { request.set("Content-Length", String(body.count)) }
        var text = "\(request.method) \(target(of: request.url)) HTTP/1.1\r\n"
        for (name, value) in request.headers.sorted(by: { $0.key < $1.key }) where isSound(name, value) {
            text += "\(name): \(value)\r\n"
        }
        return Array((text + "\r\n").utf8) + (request.body ?? [])
    }

    /// The name or address to connect to, an IPv6 address without its brackets.
    static func host(of url: URL) -> String {
        let host = url.host ?? ""
        return host.hasPrefix("[") && host.hasSuffix("]") ? String(host.dropFirst().dropLast()) : host
    }

    private static func authority(of url: URL) -> String {
        let host = host(of: url)
        let bracketed = host.contains(":") ? "[\(host)]" : host
        return url.port.map { "\(bracketed):\($0)" } ?? bracketed
    }

    private static func target(of url: URL) -> String {
        guard let parts = URLComponents(url: url, resolvingAgainstBaseURL: true) else { return "/" }
        let path = parts.percentEncodedPath.isEmpty ? "/" : parts.percentEncodedPath
        return parts.percentEncodedQuery.map { "\(path)?\($0)" } ?? path
    }

    private static func isSound(_ name: String, _ value: String) -> Bool {
        let isToken = !name.isEmpty && name.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: ":") }
        return isToken && value.utf8.allSatisfy { $0 != 0x0A && $0 != 0x0D && $0 != 0 }
    }
}
