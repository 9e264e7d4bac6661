#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Stream to which remarks and the log go. What cannot be written is let go: a full disk behind it, or a reader that
/// has gone, must not end the process (Foundation's `FileHandle` traps there).
package enum StandardError {
    package static func write(_ text: String) {
        var text = text
        _ = text.withUTF8 { DescriptorBytes.write(UnsafeRawBufferPointer($0), to: STDERR_FILENO) }
    }
}

/// Bytes to a descriptor, whole.
package enum DescriptorBytes {
    /// - Returns: how many it took; where those are not all, `errno` says why.
    package static func write(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) -> Int {
        var written = 0
        while written < bytes.count {
            let count = writeSome(bytes.baseAddress! + written, bytes.count - written, descriptor)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else {
                if count == 0 { errno = EIO }
                break
            }
            written += count
        }
        return written
    }

    private static func writeSome(_ start: UnsafeRawPointer, _ count: Int, _ descriptor: Int32) -> Int {
        #if canImport(Glibc)
            Glibc.write(descriptor, start, count)
        #elseif canImport(Musl)
            Musl.write(descriptor, start, count)
        #else
            Darwin.write(descriptor, start, count)
        #endif
    }
}
