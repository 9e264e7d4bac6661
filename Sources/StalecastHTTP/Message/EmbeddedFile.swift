import NIOHTTP1

/// A file of the daemon's own as browsers fetch it: plain or as gzip, and not again while it is the same.
package struct EmbeddedFile: Sendable {
    /// `app.js`.
    package let name: String
    package let bytes: [UInt8]
    package let packed: [UInt8]
    /// Tag of the content: gzip ends in its CRC-32 and its length.
    package let etag: String

    package init(name: String, bytes: [UInt8]) {
        self.name = name
        self.bytes = bytes
        guard let packed = Deflater.gzip(bytes, most: bytes.count + 1024) else {
            preconditionFailure("what is embedded can be packed")
        }
        self.packed = packed
        etag = "\"\(packed.suffix(8).map { String($0, radix: 16) }.joined())\""
    }

    private var contentType: String {
        switch name.split(separator: ".").last {
        case "html": "text/html; charset=utf-8"
        case "css": "text/css; charset=utf-8"
        case "svg": "image/svg+xml"
        default: "text/javascript; charset=utf-8"
        }
    }

    /// - Parameter head: says what the browser takes, and has already.
    package func answer(to head: RequestHead) -> Answer {
        let takesGzip = head.headers.first(name: "accept-encoding")?.contains("gzip") ?? false
        let isKnown = head.headers.first(name: "if-none-match")?.contains(etag) ?? false
        var answer = Answer(
            status: isKnown ? 304 : 200, contentType: contentType, body: isKnown ? [] : takesGzip ? packed : bytes)
        answer.caching = "no-cache"
        answer.add("Vary", "Accept-Encoding")
        answer.add("ETag", etag)
        if takesGzip, !isKnown { answer.add("Content-Encoding", "gzip") }
        return answer
    }
}
