import Foundation

/// Bytes of an answer, where they lie in the loop's read buffer.
package typealias Bytes = UnsafeRawBufferPointer

extension UnsafeRawBufferPointer {
    /// The bytes of `range` without copying; indices begin at 0 again.
    package func part(_ range: Range<Int>) -> Bytes { Bytes(rebasing: self[range]) }

    /// Position of the first `byte` at or after `start`; nil when there is none.
    package func position(of byte: UInt8, from start: Int = 0) -> Int? {
        guard let base = baseAddress, start < count,
            let found = memchr(base + start, Int32(byte), count - start)
        else { return nil }
        return UnsafeRawPointer(found) - base
    }

    /// The first position after an occurrence of `text` at or after `start`; nil when there is none.
    ///
    /// - Parameter anchor: the offset of a byte of `text` that is rare in the bytes; only where it stands is compared.
    package func position(after text: StaticString, anchor: Int = 0, from start: Int = 0) -> Int? {
        let length = text.utf8CodeUnitCount
        var next = start + anchor
        while let found = position(of: text.utf8Start[anchor], from: next) {
            let first = found - anchor
            if first + length > count { return nil }
            if memcmp(baseAddress! + first, text.utf8Start, length) == 0 { return first + length }
            next = found + 1
        }
        return nil
    }

    package func begins(with text: StaticString) -> Bool {
        guard let base = baseAddress, count >= text.utf8CodeUnitCount else { return false }
        return memcmp(base, text.utf8Start, text.utf8CodeUnitCount) == 0
    }

    /// The decimal number at `start`, of at most 18 digits; 0 when there is none.
    package func number(at start: Int) -> Int64 {
        var value: Int64 = 0
        for byte in self[start..<Swift.min(start + 18, count)] {
            guard (0x30...0x39).contains(byte) else { break }
            value = value * 10 + Int64(byte - 0x30)
        }
        return value
    }

    /// The greatest `latestTemplateVersionNumber` in these bytes; 0 when there is none.
    package var newestVersion: Int64 {
        var (newest, start): (Int64, Int) = (0, 0)
        while let digits = position(after: "\"latestTemplateVersionNumber\":\"", anchor: 15, from: start) {
            newest = Swift.max(newest, number(at: digits))
            start = digits
        }
        return newest
    }
}
