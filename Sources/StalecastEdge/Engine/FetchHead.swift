package import StalecastAccess
import StalecastHTTP

/// The head of a recognised fetch, or of a request for flags.
package struct FetchHead: Sendable {
    /// The path's place in the head, without the query.
    package let path: Range<Int>
    /// Bytes of the head; the body follows.
    package let length: Int
    package private(set) var credentials: Credentials
    package let query: String
    package let ifNoneMatch: String?
    package let origin: String?
    package let keepAlive: Bool
    let admitsGzip: Bool
    /// Values of the header field in which a trusted proxy names its client.
    package let forwarded: [String]

    init(path: Range<Int>, query: Slice<UnsafeBufferPointer<UInt8>>, headers: StreamHeaders, length: Int) {
        self.path = path
        self.length = length
        credentials = headers.credentials
        credentials.dropInstallationToken()
        self.query = String(decoding: query, as: UTF8.self)
        if !query.isEmpty { credentials.read(query: self.query[...]) }
        ifNoneMatch = headers.ifNoneMatch
        origin = headers.origin
        keepAlive = headers.keepAlive
        admitsGzip = headers.admitsGzip
        forwarded = headers.forwarded
    }

    mutating func show(_ certificate: ClientCertificate?) { credentials.certificate = certificate }
}
