import StalecastHub
import StalecastWire

/// The bytes of an event stream, chunked for HTTP/1.1 and plain for HTTP/1.0.
struct SSEDialect {
    let isHTTP11: Bool

    /// A comment that keeps proxies and read timeouts quiet.
    static let heartbeatChunk = ChunkEncoder.chunk(SSEEncoder.comment("hb"))
    static let heartbeatPlain = SSEEncoder.comment("hb")

    func append(_ payload: [UInt8], to bytes: inout [UInt8]) {
        if isHTTP11 { bytes.append(contentsOf: ChunkEncoder.chunk(payload)) } else { bytes.append(contentsOf: payload) }
    }

    func append(chunk: SharedBytes, to bytes: inout [UInt8]) {
        bytes.append(contentsOf: isHTTP11 ? chunk.buffer : chunk.chunkPayload)
    }

    /// Messages in cursor order; of those with one cursor only the last carries the id.
    func append(_ notices: [Notice], to bytes: inout [UInt8]) {
        for (position, notice) in notices.enumerated() {
            let isLastOfCursor = position + 1 == notices.count || notices[position + 1].sequence != notice.sequence
            append(chunk: isLastOfCursor ? notice.chunk : notice.chunkWithoutID, to: &bytes)
        }
    }

    /// What follows the head at once: `retry`, a comment, then `reset` if the cursor said nothing to us.
    func appendBeginning(retryMs: Int, reset: ResetReason?, epoch: Epoch, to bytes: inout [UInt8]) {
        append(Array("retry: \(retryMs)\n: stalecast\n\n".utf8), to: &bytes)
        guard let reset else { return }
        let data: JSONValue = ["epoch": .string(epoch.description), "reason": .string(reset.rawValue)]
        append(SSEEncoder.event("reset", data: data.encoded()), to: &bytes)
    }

    /// The bookmark: everything up to `head` was written.
    static func synced(_ head: Cursor) -> [UInt8] {
        let data: JSONValue = ["cursor": .string(head.description)]
        return SSEEncoder.event("synced", id: head.description, data: data.encoded())
    }

    /// A clean end with the delay after which to come back.
    func appendEnd(retryMs: Int, to bytes: inout [UInt8]) {
        append(SSEEncoder.retry(milliseconds: retryMs), to: &bytes)
        if isHTTP11 { bytes.append(contentsOf: ChunkEncoder.last) }
    }
}
