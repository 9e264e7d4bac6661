/// Base64 (RFC 4648 §4) without a detour over Foundation: signatures are encoded once per delivery.
package enum Base64 {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    private static let values: [UInt8] = {
        var values = [UInt8](repeating: 0xFF, count: 256)
        for (value, letter) in alphabet.enumerated() { values[Int(letter)] = UInt8(value) }
        return values
    }()

    /// Appends `bytes` in base64 with padding.
    package static func append(_ bytes: some Sequence<UInt8>, to text: inout [UInt8]) {
        var group: UInt32 = 0
        var count = 0
        for byte in bytes {
            group = group << 8 | UInt32(byte)
            count += 1
            guard count == 3 else { continue }
            for shift: UInt32 in [18, 12, 6, 0] { text.append(alphabet[Int(group >> shift & 63)]) }
            group = 0
            count = 0
        }
        guard count > 0 else { return }
        group <<= UInt32(24 - 8 * count)
        for position in 0...3 {
            let letter = alphabet[Int(group >> UInt32(18 - 6 * position) & 63)]
            text.append(position <= count ? letter : UInt8(ascii: "="))
        }
    }

    package static func encode(_ bytes: some Sequence<UInt8>) -> String {
        var text: [UInt8] = []
        append(bytes, to: &text)
        return String(decoding: text, as: UTF8.self)
    }

    /// The bytes; padding may be left out. nil for any other character, a wrong length, or bits that do not fit.
    package static func decode(_ text: some StringProtocol) -> [UInt8]? {
        var letters = Array(text.utf8)
        let padding = letters.reversed().prefix { $0 == UInt8(ascii: "=") }.count
        guard padding == 0 || (padding <= 2 && letters.count % 4 == 0) else { return nil }
        letters.removeLast(padding)
        guard letters.count % 4 != 1 else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(letters.count * 3 / 4)
        var buffer: UInt32 = 0
        var bits = 0
        for letter in letters {
            let value = values[Int(letter)]
            guard value != 0xFF else { return nil }
            buffer = buffer << 6 | UInt32(value)
            bits += 6
            guard bits >= 8 else { continue }
            bits -= 8
            bytes.append(UInt8(truncatingIfNeeded: buffer >> UInt32(bits)))
        }
        return buffer & ((1 << UInt32(bits)) - 1) == 0 ? bytes : nil
    }
}
