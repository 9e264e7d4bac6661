/// Reads one HTTP/1.1 response from bytes cut anywhere.
package struct ResponseReader {
    /// Why the bytes are not an answer we can read; `description` is for the developer.
    package struct Malformed: Error, CustomStringConvertible { package let description: String }

    /// The longest head, in bytes.
    package static let maxHeadBytes = 32 << 10

    private enum Phase {
        case head([UInt8])
        case chunked(ChunkReader)
        case counted(left: Int)
        case untilClose
        case ended
    }

    private var phase = Phase.head([])

    package init() {}

    /// Takes the next bytes and returns what they complete; what follows the answer is ignored.
    package mutating func receive(_ bytes: [UInt8]) throws(Malformed) -> [StreamEvent] {
        switch phase {
        case .head(let former): return try head(former + bytes)
        case .chunked(var chunks):
            var payload: [UInt8] = []
            try chunks.receive(bytes, into: &payload)
            phase = chunks.hasEnded ? .ended : .chunked(chunks)
            return (payload.isEmpty ? [] : [.bytes(payload)]) + (chunks.hasEnded ? [.end] : [])
        case .counted(let left):
            let taken = min(left, bytes.count)
            phase = taken == left ? .ended : .counted(left: left - taken)
            return (taken > 0 ? [.bytes(Array(bytes[..<taken]))] : []) + (taken == left ? [.end] : [])
        case .untilClose: return bytes.isEmpty ? [] : [.bytes(bytes)]
        case .ended: return []
        }
    }

    /// The connection was closed by the server.
    package mutating func closed() throws(Malformed) -> [StreamEvent] {
        switch phase {
        case .untilClose:
            phase = .ended
            return [.end]
        case .ended: return []
        case .head(let bytes) where bytes.isEmpty:
            throw Malformed(description: "the server closed the connection without an answer")
        default: throw Malformed(description: "the connection ended in the middle of the answer")
        }
    }

    private mutating func head(_ bytes: [UInt8]) throws(Malformed) -> [StreamEvent] {
        guard let end = Self.endOfHead(bytes) else {
            guard bytes.count <= Self.maxHeadBytes else {
                throw Malformed(description: "the answer's head is too long")
            }
            phase = .head(bytes)
            return []
        }
        let head = try Self.parse(bytes[..<end])
        let rest = Array(bytes[end...])
        if (100..<200).contains(head.status) {
            guard head.status != 101 else { throw Malformed(description: "the server switched to another protocol") }
            phase = .head([])
            return rest.isEmpty ? [] : try self.head(rest)
        }
        phase = try Self.body(of: head)
        if case .ended = phase { return [.head(head), .end] }
        return try [.head(head)] + (rest.isEmpty ? [] : receive(rest))
    }

    /// The index behind the empty line; both CRLF and bare LF end lines.
    private static func endOfHead(_ bytes: [UInt8]) -> Int? {
        var lineFeeds = 0
        for (index, byte) in bytes.enumerated() {
            if byte == 0x0A { lineFeeds += 1 } else if byte != 0x0D { lineFeeds = 0 }
            if lineFeeds == 2 { return index + 1 }
        }
        return nil
    }

    private static func parse(_ bytes: ArraySlice<UInt8>) throws(Malformed) -> ResponseHead {
        let lines = bytes.split(separator: 0x0A).map { $0.last == 0x0D ? $0.dropLast() : $0 }
        let words = (lines.first ?? []).split(separator: 0x20, maxSplits: 2)
        guard words.count >= 2, words[0].starts(with: "HTTP/1.".utf8), words[1].count == 3,
            let status = Int(String(decoding: words[1], as: UTF8.self)), (100..<1000).contains(status)
        else { throw Malformed(description: "the answer is not HTTP/1.1") }
        var headers: [String: String] = [:]
        for line in lines.dropFirst() {
            guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { continue }
            let name = String(decoding: line[..<colon], as: UTF8.self).lowercased()
            let value = String(decoding: trimmed(line[(colon + 1)...]), as: UTF8.self)
            headers[name] = headers[name].map { "\($0), \(value)" } ?? value
        }
        return ResponseHead(status: status, headers: headers)
    }

    private static func trimmed(_ value: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        let isBlank: (UInt8) -> Bool = { $0 == 0x20 || $0 == 0x09 }
        let start = value.drop(while: isBlank)
        guard let last = start.lastIndex(where: { !isBlank($0) }) else { return [] }
        return start[...last]
    }

    /// RFC 9112 §6.3.
    private static func body(of head: ResponseHead) throws(Malformed) -> Phase {
        if head.status == 204 || head.status == 304 { return .ended }
        if let coding = head.headers["transfer-encoding"]?.lowercased() {
            guard coding == "chunked" else {
                throw Malformed(description: "transfer coding \(coding) is not understood")
            }
            return .chunked(ChunkReader())
        }
        guard let text = head.headers["content-length"] else { return .untilClose }
        let lengths = Set(text.split(separator: ",").map { $0.filter { $0 != " " } })
        guard lengths.count == 1, let digits = lengths.first, let length = Int(digits), length >= 0 else {
            throw Malformed(description: "Content-Length \(text) is not a length")
        }
        return length == 0 ? .ended : .counted(left: length)
    }
}
