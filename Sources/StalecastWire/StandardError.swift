#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Where remarks and the log go. What cannot be written is let go: a full disk behind it, or a reader that has gone, must
/// end nobody (Foundation's `FileHandle` traps there).
package enum StandardError {
    package static func write(_ text: String) {
        var text = text
        text.withUTF8 { bytes in
            var rest = UnsafeRawBufferPointer(bytes)[...]
            while !rest.isEmpty {
                let part = UnsafeRawBufferPointer(rebasing: rest)
                let count = writeSome(part.baseAddress!, part.count)
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { return }
                rest = rest.dropFirst(count)
            }
        }
    }

    private static func writeSome(_ start: UnsafeRawPointer, _ count: Int) -> Int {
        #if canImport(Glibc)
            Glibc.write(STDERR_FILENO, start, count)
        #elseif canImport(Musl)
            Musl.write(STDERR_FILENO, start, count)
        #else
            Darwin.write(STDERR_FILENO, start, count)
        #endif
    }
}
