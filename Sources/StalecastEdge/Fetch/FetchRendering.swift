package import NIOCore
package import StalecastWire
import Synchronization

/// The finished answer to every instance with one outcome of a version's conditions: bytes that requests share. A
/// class, as its parts are, so that a fetch takes it with one reference count.
package final class FetchRendering: Sendable {
    /// Tag as on the wire, unquoted.
    package let etag: String
    /// 0 where there is none.
    package let version: VersionNumber
    /// The answer for those that hold something else.
    package let update: FetchBytes
    /// The answer for those whose `If-None-Match` is ``etag``.
    package let unchanged: FetchBytes

    init(etag: String, version: VersionNumber, update: FetchBytes, unchanged: FetchBytes) {
        self.etag = etag
        self.version = version
        self.update = update
        self.unchanged = unchanged
    }

    /// Bytes that the rendering takes in memory, with the most that its form in gzip may take.
    package var byteCount: Int { update.byteCount + unchanged.byteCount + update.body.readableBytes / 2 }
}

/// State of the config that a fetch reports. Raw values are on the wire.
package enum FetchState: String, Sendable, CaseIterable {
    case update = "UPDATE"
    case noChange = "NO_CHANGE"
    case noTemplate = "NO_TEMPLATE"
    case emptyConfig = "EMPTY_CONFIG"

    /// Its place among all.
    var index: Int {
        switch self {
        case .update: 0
        case .noChange: 1
        case .noTemplate: 2
        case .emptyConfig: 3
        }
    }
}

/// A body and the constant part of its head.
package final class FetchBytes: Sendable {
    /// Status line and whole header lines, open for more lines.
    package let head: ByteBuffer
    package let body: ByteBuffer
    /// State in the body.
    package let state: FetchState
    let etag: String?
    /// Form in gzip.
    let packed = Mutex(PackedAnswer())

    var byteCount: Int { head.readableBytes + body.readableBytes }

    /// - Parameters:
    ///   - body: nil answers 304.
    ///   - etag: as on the wire; nil has none.
    ///   - isPacked: the body is gzip.
    init(body: ByteBuffer?, state: FetchState, etag: String?, isPacked: Bool = false) {
        self.state = state
        self.etag = etag
        self.body = body ?? ByteBuffer()
        let coding = isPacked ? "Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n" : ""
        let content = body.map { body in
            "Content-Type: application/json; charset=utf-8\r\nContent-Length: \(body.readableBytes)\r\n\(coding)"
        }
        head = ByteBuffer(
            string: """
                HTTP/1.1 \(body == nil ? "304 Not Modified" : "200 OK")\r
                \(content ?? "")Cache-Control: no-store\r
                X-Content-Type-Options: nosniff\r
                \(etag.map { "ETag: \($0)\r\n" } ?? "")
                """)
    }

    /// Largest body that is copied behind its head: writing the two apart costs more.
    private static let mostCopied = 8192

    /// One answer in pieces to be written: its head and its body, together where that is cheaper.
    ///
    /// - Parameter ending: of ``ending(date:fields:)``.
    func pieces(ending: [UInt8]) -> (first: ByteBuffer, rest: ByteBuffer?) {
        let isCopied = body.readableBytes <= Self.mostCopied
        var first = ByteBuffer()
        first.reserveCapacity(head.readableBytes + ending.count + (isCopied ? body.readableBytes : 0))
        first.writeImmutableBuffer(head)
        first.writeBytes(ending)
        if isCopied { first.writeImmutableBuffer(body) }
        return (first, isCopied ? nil : body)
    }

    /// End of an answer's head: the same for all of one second, origin and kind of connection.
    ///
    /// - Parameter fields: lines for some requests, each ending in CRLF.
    static func ending(date: String, fields: String) -> [UInt8] { Array("Date: \(date)\r\n\(fields)\r\n".utf8) }
}
