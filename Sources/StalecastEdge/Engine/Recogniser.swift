package import StalecastAccess
package import StalecastHTTP

/// Recognises, byte for byte, a complete and ordinary `GET` of a stream, a poll or the state, or a `POST` of a fetch or
/// for flags with its body, with nothing after it.
///  It is not an HTTP server: whatever it does not recognise (another body, an upgrade, a folded line, a bare line
/// feed, a second request behind the first, a byte beyond ASCII) is left to the Front, which parses HTTP of every
/// shape. What it accepts must mean the same to any HTTP parser.
package struct Recogniser {
    package enum Found: Sendable {
        case stream(StreamRequest)
        case fetch(FetchHead)
        /// A fetch whose head is complete, and whose body is not there yet.
        case beginningOfFetch

        /// The stream, the poll or the request for the state; nil for any other.
        package var stream: StreamRequest? { if case .stream(let request) = self { request } else { nil } }
    }

    /// The largest body of a fetch that the engine takes.
    package static let maxBodyBytes = 16_384

    private let bytes: UnsafeBufferPointer<UInt8>
    private let hosts: HostRule
    private let proxyField: TrustedProxies.Field?
    private var index = 0

    /// Fields that may come once.
    private struct Seen {
        var host = false
        var connection = false
        /// The length of a fetch's body; nil for none.
        var length: Int?
    }

    private enum Path {
        case stream(StreamRequest.Kind)
        case fetch(Range<Int>)

        var isFetch: Bool { if case .fetch = self { true } else { false } }
    }

    private init(_ bytes: UnsafeBufferPointer<UInt8>, _ hosts: HostRule, _ field: TrustedProxies.Field?) {
        self.bytes = bytes
        self.hosts = hosts
        proxyField = field
    }

    /// The request, or nil when in doubt.
    ///
    /// - Parameter field: where a proxy says who its client is; nil when it is not asked.
    package static func find(
        _ bytes: UnsafeBufferPointer<UInt8>, maxTopics: Int, hosts: HostRule = .any,
        field: TrustedProxies.Field? = nil
    ) -> Found? {
        var recogniser = Recogniser(bytes, hosts, field)
        return recogniser.request(maxTopics: maxTopics)
    }

    private mutating func request(maxTopics: Int) -> Found? {
        guard let path = path(), let query = query(path), let isHTTP11 = version() else { return nil }
        var headers = StreamHeaders(isHTTP11: isHTTP11, keepAlive: isHTTP11)
        var seen = Seen()
        while true {
            if skip("\r\n") {
                guard seen.host || !isHTTP11 else { return nil }
                return found(path, query, headers, seen, maxTopics)
            }
            guard let (name, value) = field(), take(name, value, path.isFetch, &headers, &seen) else { return nil }
        }
    }

    private func found(
        _ path: Path, _ query: Slice<UnsafeBufferPointer<UInt8>>, _ headers: StreamHeaders, _ seen: Seen,
        _ maxTopics: Int
    ) -> Found? {
        switch path {
        case .fetch(let path):
            guard headers.isHTTP11, let length = seen.length, bytes.count <= index + length else { return nil }
            if bytes.count < index + length { return .beginningOfFetch }
            return .fetch(FetchHead(path: path, query: query, headers: headers, length: index))
        case .stream(let kind):
            // Malformed: the Front answers with the reason.
            guard index == bytes.count,
                let request = try? StreamRequest(kind: kind, query: query, headers: headers, maxTopics: maxTopics)
            else { return nil }
            // Shared polls are few, because a cache stands in front of them: the Front alone knows them.
            return request.round == nil ? .stream(request) : nil
        }
    }

    private mutating func path() -> Path? {
        if skip("GET /v1/events?") { return .stream(.events) }
        if skip("GET /v1/poll?") { return .stream(.poll) }
        if skip("GET /v1/state?") { return .stream(.state) }
        guard skip("POST ") else { return nil }
        let start = index
        guard skip("/v1/projects/") || skip("/ofrep/") else { return nil }
        while index < bytes.count, bytes[index] != 0x3F, Self.isQueryByte(bytes[index]) { index += 1 }
        let path = bytes[start..<index]
        guard Self.ends(path, in: ":fetch") || Self.isOfFlags(path) else { return nil }
        return .fetch(start..<index)
    }

    /// All flags, or one, whose name is the last segment.
    private static func isOfFlags(_ path: Slice<UnsafeBufferPointer<UInt8>>) -> Bool {
        if ends(path, in: "/ofrep/v1/evaluate/flags") { return true }
        guard let slash = path.lastIndex(of: UInt8(ascii: "/")) else { return false }
        return ends(path[..<slash], in: "/ofrep/v1/evaluate/flags")
    }

    private static func ends(_ path: Slice<UnsafeBufferPointer<UInt8>>, in end: StaticString) -> Bool {
        equal(path.suffix(end.utf8CodeUnitCount), end)
    }

    /// Reads the query up to the blank behind it. A fetch needs none.
    private mutating func query(_ path: Path) -> Slice<UnsafeBufferPointer<UInt8>>? {
        if path.isFetch, skip(" ") { return bytes[index..<index] }
        if path.isFetch, !skip("?") { return nil }
        return query()
    }

    private mutating func query() -> Slice<UnsafeBufferPointer<UInt8>>? {
        let start = index
        while index < bytes.count, Self.isQueryByte(bytes[index]) { index += 1 }
        defer { index += 1 }
        guard index < bytes.count, bytes[index] == 0x20 else { return nil }
        return bytes[start..<index]
    }

    private mutating func version() -> Bool? {
        if skip("HTTP/1.1\r\n") { return true }
        if skip("HTTP/1.0\r\n") { return false }
        return nil
    }

    private mutating func field() -> (Slice<UnsafeBufferPointer<UInt8>>, Slice<UnsafeBufferPointer<UInt8>>)? {
        let start = index
        while index < bytes.count, Self.isTokenByte(bytes[index]) { index += 1 }
        guard index > start, index < bytes.count, bytes[index] == UInt8(ascii: ":") else { return nil }
        let name = bytes[start..<index]
        index += 1
        while index < bytes.count, bytes[index] == 0x20 { index += 1 }
        let valueStart = index
        var valueEnd = index
        while let eight = EightBytes(bytes, at: valueEnd), eight.arePrintable { valueEnd += 8 }
        // Control characters wrap around to large numbers, so that one comparison keeps 0x20 to 0x7E.
        while valueEnd < bytes.count, bytes[valueEnd] &- 0x20 <= 0x5E { valueEnd += 1 }
        index = valueEnd
        while valueEnd > valueStart, bytes[valueEnd - 1] == 0x20 { valueEnd -= 1 }
        return skip("\r\n") ? (name, bytes[valueStart..<valueEnd]) : nil
    }

    /// False when the field makes the request more than ordinary.
    private func take(
        _ name: Slice<UnsafeBufferPointer<UInt8>>, _ value: Slice<UnsafeBufferPointer<UInt8>>, _ isFetch: Bool,
        _ headers: inout StreamHeaders, _ seen: inout Seen
    ) -> Bool {
        if let proxyField, name.count == proxyField.rawValue.utf8.count,
            proxyField == .forwarded ? Self.equal(name, "forwarded") : Self.equal(name, "x-forwarded-for")
        {
            headers.forwarded.append(String(decoding: value, as: UTF8.self))
        }
        // Anything else about content, and NIO's parser takes some misspellings for `Connection: close`.
        if Self.equal(name.prefix(3), "con"), !Self.equal(name, "connection") {
            return isFetch && Self.isOfBody(name, value, &seen)
        }
        switch name.count {
        case 2: return !Self.equal(name, "te")
        case 4:
            if Self.equal(name, "host") {
                if seen.host { return false }
                seen.host = true
                // What is no host, or another's, is refused by the Front.
                return hosts.judge(UnsafeBufferPointer(rebasing: value)) == .admitted
            }
        case 6:
            if Self.equal(name, "expect") { return false }
            // Whether it counts is more than is decided here.
            if Self.equal(name, "cookie"), String(decoding: value, as: UTF8.self).contains("__Host-stalecast=") {
                return false
            }
            if Self.equal(name, "origin") { return Self.storeOnce(value, &headers.origin) }
        case 7: return !Self.equal(name, "upgrade") && !Self.equal(name, "trailer")
        case 9:
            if Self.equal(name, "x-api-key") { return Self.storeOnce(value, &headers.credentials.apiKey) }
        case 10:
            if Self.equal(name, "connection") {
                guard Self.equal(value, "keep-alive") || Self.equal(value, "close") else { return false }
                if seen.connection { return false }
                seen.connection = true
                headers.keepAlive = headers.isHTTP11 && value.count == 10
            }
        case 13:
            if Self.equal(name, "if-none-match") { return isFetch && Self.storeOnce(value, &headers.ifNoneMatch) }
            if Self.equal(name, "authorization") { return Self.storeOnce(value, &headers.credentials.authorization) }
            if Self.equal(name, "last-event-id") { return Self.storeOnce(value, &headers.lastEventID) }
        case 14:
            if Self.equal(name, "x-goog-api-key") { return Self.storeOnce(value, &headers.credentials.googleKey) }
            return !Self.equal(name, "http2-settings")
        case 15:
            if isFetch, Self.equal(name, "accept-encoding") {
                let value = String(decoding: value, as: UTF8.self)
                headers.admitsGzip = headers.admitsGzip || ContentCoding.admitsGzip(value)
            }
        case 16: return !Self.equal(name, "proxy-connection")
        case 17: return !Self.equal(name, "transfer-encoding")
        case 18:
            if Self.equal(name, "x-stalecast-client") { return Self.storeOnce(value, &headers.client) }
        default: break
        }
        return true
    }

    /// Stores the value of a field that may be there once; false when it was there already.
    private static func storeOnce(_ value: Slice<UnsafeBufferPointer<UInt8>>, _ stored: inout String?) -> Bool {
        guard stored == nil else { return false }
        stored = String(decoding: value, as: UTF8.self)
        return true
    }

    /// The type and coding of a fetch's body are not read: its first bytes tell whether it is compressed.
    private static func isOfBody(
        _ name: Slice<UnsafeBufferPointer<UInt8>>, _ value: Slice<UnsafeBufferPointer<UInt8>>, _ seen: inout Seen
    ) -> Bool {
        if equal(name, "content-type") || equal(name, "content-encoding") { return true }
        guard equal(name, "content-length"), seen.length == nil, (1...5).contains(value.count),
            value.allSatisfy({ (0x30...0x39).contains($0) })
        else { return false }
        let length = value.reduce(0) { $0 * 10 + Int($1 - 0x30) }
        seen.length = length
        return length <= maxBodyBytes
    }

    private mutating func skip(_ text: StaticString) -> Bool {
        let count = text.utf8CodeUnitCount
        guard bytes.count - index >= count else { return false }
        for offset in 0..<count where bytes[index + offset] != text.utf8Start[offset] { return false }
        index += count
        return true
    }

    /// Case-insensitive; `text` is lower case.
    private static func equal(_ name: Slice<UnsafeBufferPointer<UInt8>>, _ text: StaticString) -> Bool {
        guard name.count == text.utf8CodeUnitCount else { return false }
        var offset = 0
        for byte in name {
            let lower = (0x41...0x5A).contains(byte) ? byte | 0x20 : byte
            if lower != text.utf8Start[offset] { return false }
            offset += 1
        }
        return true
    }

    /// RFC 3986's query characters and `%`.
    private static func isQueryByte(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        case 0x21, 0x24...0x2F, 0x3A, 0x3B, 0x3D, 0x3F, 0x40, 0x5F, 0x7E: true
        default: false
        }
    }

    /// RFC 9110's token characters.
    private static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        case 0x21, 0x23...0x27, 0x2A, 0x2B, 0x2D, 0x2E, 0x5E...0x60, 0x7C, 0x7E: true
        default: false
        }
    }
}

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
