package import StalecastWire

/// A message encoded once for all its receivers: the server-sent event framed as one HTTP chunk, with the plain
/// event as a slice of it.
package final class Notice: Sendable {
    package let message: StaleMessage
    /// The message's JSON on one line.
    package let json: [UInt8]
    /// The event with its `id`, as one chunk of an HTTP/1.1 body.
    package let chunk: SharedBytes
    /// The same without `id`, for all but the last of several messages with one cursor: a client that broke off
    /// between them would otherwise resume after the whole group.
    package let chunkWithoutID: SharedBytes

    package init(_ message: StaleMessage, epoch: Epoch) {
        self.message = message
        json = message.json.encoded(.wire)
        let cursor = Cursor(epoch: epoch, sequence: message.change.sequence)
        chunk = SharedBytes(ChunkEncoder.chunk(SSEEncoder.event(id: cursor.description, data: json)))
        chunkWithoutID = SharedBytes(ChunkEncoder.chunk(SSEEncoder.event(data: json)))
    }

    package var sequence: CommitSequence { message.change.sequence }
}

extension SharedBytes {
    /// What is inside one HTTP chunk: between the length line and the final CRLF.
    package var chunkPayload: UnsafeBufferPointer<UInt8> {
        let start = buffer.firstIndex(of: 0x0A).map { $0 + 1 } ?? 0
        return UnsafeBufferPointer(rebasing: buffer[start..<count - 2])
    }
}
