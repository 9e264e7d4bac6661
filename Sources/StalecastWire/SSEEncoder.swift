/// Writes server-sent events. Text given here must be free of line ends; our JSON is ASCII on one line by
/// construction, cursors by their alphabet.
package enum SSEEncoder {
    /// An unnamed event (`event` nil) or a named one, ended by its blank line; `id` nil leaves the client's id alone.
    package static func event(_ event: String? = nil, id: String? = nil, data: some Collection<UInt8>) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(data.count + 64)
        if let event { bytes.append(contentsOf: "event: \(event)\n".utf8) }
        if let id { bytes.append(contentsOf: "id: \(id)\n".utf8) }
        bytes.append(contentsOf: "data: ".utf8)
        bytes.append(contentsOf: data)
        bytes.append(contentsOf: "\n\n".utf8)
        return bytes
    }

    /// A comment: clients ignore it, proxies and read timeouts do not. It needs no blank line, of which some clients
    /// make an event without data.
    package static func comment(_ text: String) -> [UInt8] { Array(": \(text)\n".utf8) }

    /// The reconnect delay clients should use, in milliseconds; without a blank line as well.
    package static func retry(milliseconds: Int) -> [UInt8] { Array("retry: \(milliseconds)\n".utf8) }
}

/// HTTP/1.1 chunked framing.
package enum ChunkEncoder {
    /// `payload` as one chunk: its length in hexadecimal, CRLF, payload, CRLF.
    package static func chunk(_ payload: some Collection<UInt8>) -> [UInt8] {
        var bytes = Array("\(String(payload.count, radix: 16))\r\n".utf8)
        bytes.append(contentsOf: payload)
        bytes.append(contentsOf: [0x0D, 0x0A])
        return bytes
    }

    /// The chunk that ends a body.
    package static let last: [UInt8] = Array("0\r\n\r\n".utf8)
}
