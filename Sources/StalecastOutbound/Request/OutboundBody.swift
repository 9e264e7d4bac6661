/// Body that many requests share, at an address that does not change: libcurl reads it there for each of them, and no
/// request needs memory of its own for it.
///
/// Unchecked: the memory is written before anything else can know of it, and never again.
package final class OutboundBody: @unchecked Sendable {
    package let bytes: [UInt8]
    let memory: UnsafeMutableRawBufferPointer

    package init(_ bytes: [UInt8]) {
        self.bytes = bytes
        memory = .allocate(byteCount: max(1, bytes.count), alignment: 1)
        memory.copyBytes(from: bytes)
    }

    deinit { memory.deallocate() }
}
