import CConsole
import CZlib
import StalecastHTTP

/// The console's pages: what `Sources/CConsole/web` holds, embedded by the compiler.
package struct ConsoleFile: Sendable {
    /// `app.js`.
    package let name: String
    package let bytes: [UInt8]
    /// The same as gzip.
    package let packed: [UInt8]
    /// Of the content: gzip ends in its CRC-32 and its length.
    let etag: String

    /// By name.
    package static let all: [String: ConsoleFile] = Dictionary(
        uniqueKeysWithValues: sequence(state: 0) { index in
            defer { index += 1 }
            return ConsoleFile(cconsole_file_at(index))
        }.map { ($0.name, $0) })

    private init?(_ file: cconsole_file) {
        guard let name = file.name else { return nil }
        self.name = String(cString: name)
        let bytes = Array(UnsafeBufferPointer(start: file.bytes, count: file.count))
        self.bytes = bytes
        packed = [UInt8](unsafeUninitializedCapacity: bytes.count + 1024) { room, count in
            count = czlib_gzip(bytes, bytes.count, room.baseAddress, room.count)
        }
        precondition(!packed.isEmpty, "what is embedded can be packed")
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

    /// What a browser may do with the pages: run our scripts, show our styles, speak with this listener. Text never
    /// becomes markup (Trusted Types), and nobody frames them.
    package static let policy = """
        default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
        form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
        trusted-types 'none'
        """

    /// - Parameter call: says what the browser takes, and has already.
    func answer(_ call: Call) -> Answer {
        let takesGzip = call[field: "accept-encoding"]?.contains("gzip") ?? false
        let isKnown = call[field: "if-none-match"]?.contains(etag) ?? false
        var answer = Answer(
            status: isKnown ? 304 : 200, contentType: contentType, body: isKnown ? [] : takesGzip ? packed : bytes)
        answer.caching = "no-cache"
        for (field, value) in Self.fields { answer.add(field, value) }
        answer.add("ETag", etag)
        if takesGzip, !isKnown { answer.add("Content-Encoding", "gzip") }
        return answer
    }

    private static let fields = [
        ("Content-Security-Policy", policy), ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cross-Origin-Resource-Policy", "same-origin"), ("Referrer-Policy", "no-referrer"),
        // For browsers older than frame-ancestors.
        ("X-Frame-Options", "DENY"), ("Vary", "Accept-Encoding"),
    ]
}
