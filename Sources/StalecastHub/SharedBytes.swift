/// Immutable bytes at a fixed address, shared by every subscriber they are sent to.
///
/// `@unchecked Sendable`: written once in `init`, only read afterwards, freed when the last holder lets go.
package final class SharedBytes: @unchecked Sendable {
    package let base: UnsafePointer<UInt8>
    package let count: Int

    package init(_ bytes: some Collection<UInt8>) {
        let memory = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: max(bytes.count, 1))
        _ = memory.initialize(from: bytes)
        base = UnsafePointer(memory.baseAddress!)
        count = bytes.count
    }

    deinit { base.deallocate() }

    package var buffer: UnsafeBufferPointer<UInt8> { UnsafeBufferPointer(start: base, count: count) }
}
