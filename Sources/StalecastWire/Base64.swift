/// Base64 (RFC 4648 §4) without a detour over Foundation: signatures are encoded once per delivery.
package enum Base64 {
    private static let letters = Base64Letters(last: "+/")

    /// Appends `bytes` in base64 with padding. A sequence of any kind would allocate for each byte.
    package static func append(_ bytes: UnsafeRawBufferPointer, to text: inout [UInt8]) {
        let missing = letters.append(bytes, to: &text)
        for _ in 0..<missing { text.append(UInt8(ascii: "=")) }
    }

    package static func encode(_ bytes: some Sequence<UInt8>) -> String {
        var text: [UInt8] = []
        Array(bytes).withUnsafeBytes { append($0, to: &text) }
        return String(decoding: text, as: UTF8.self)
    }

    /// The bytes; padding may be left out. nil for any other character, a wrong length, or bits that do not fit.
    package static func decode(_ text: some StringProtocol) -> [UInt8]? {
        let text = Array(text.utf8)
        let padding = text.reversed().prefix { $0 == UInt8(ascii: "=") }.count
        guard padding == 0 || (padding <= 2 && text.count % 4 == 0) else { return nil }
        return letters.decode(text.dropLast(padding))
    }
}

/// Base64url without padding (RFC 4648 §5) in its one spelling: bits that stand for nothing must be zero.
package enum Base64URL {
    private static let letters = Base64Letters(last: "-_")

    package static func encode(_ bytes: some Sequence<UInt8>) -> String {
        var text: [UInt8] = []
        _ = Array(bytes).withUnsafeBytes { letters.append($0, to: &text) }
        return String(decoding: text, as: UTF8.self)
    }

    /// nil for anything else.
    package static func decode(_ text: some Sequence<UInt8>) -> [UInt8]? { letters.decode(text) }
}

/// An alphabet of 64 letters, each of which stands for six bits.
private struct Base64Letters: Sendable {
    private let letters: [UInt8]
    /// Bits by letter; 0xFF for what is no letter.
    private var values = [UInt8](repeating: 0xFF, count: 256)

    /// - Parameter last: the two that the alphabets do not share.
    init(last: String) {
        letters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789\(last)".utf8)
        for (value, letter) in letters.enumerated() { values[Int(letter)] = UInt8(value) }
    }

    /// - Returns: how many letters the last group of four lacks.
    func append(_ bytes: UnsafeRawBufferPointer, to text: inout [UInt8]) -> Int {
        var (buffer, bits, lacking): (UInt32, UInt32, Int) = (0, 0, 0)
        for byte in bytes {
            buffer = (buffer << 8 | UInt32(byte)) & 0xFFFF
            bits += 8
            while bits >= 6 {
                bits -= 6
                text.append(letters[Int(buffer >> bits & 63)])
            }
            lacking = lacking == 0 ? 2 : lacking - 1
        }
        if bits > 0 { text.append(letters[Int(buffer << (6 - bits) & 63)]) }
        return lacking
    }

    func decode(_ text: some Sequence<UInt8>) -> [UInt8]? {
        var bytes: [UInt8] = []
        var (buffer, bits): (UInt32, UInt32) = (0, 0)
        for letter in text {
            let value = values[Int(letter)]
            guard value != 0xFF else { return nil }
            buffer = (buffer << 6 | UInt32(value)) & 0xFFFF
            bits += 6
            guard bits >= 8 else { continue }
            bits -= 8
            bytes.append(UInt8(truncatingIfNeeded: buffer >> bits))
        }
        // A letter alone is no byte, and bits that are left must be zero (RFC 4648 §3.5): bytes have one spelling.
        return bits < 6 && buffer & ((1 << bits) - 1) == 0 ? bytes : nil
    }
}
