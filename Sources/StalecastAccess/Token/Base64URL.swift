/// Base64url without padding (RFC 4648 §5) in its one spelling: bits that stand for nothing must be zero.
package enum Base64URL {
    private static let values: [UInt8] = {
        var values = [UInt8](repeating: 0xFF, count: 256)
        let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
        for (value, letter) in alphabet.utf8.enumerated() { values[Int(letter)] = UInt8(value) }
        return values
    }()

    /// nil for anything else.
    package static func decode(_ text: some Sequence<UInt8>) -> [UInt8]? {
        var bytes: [UInt8] = []
        var buffer: UInt32 = 0
        var bits: UInt32 = 0
        for letter in text {
            let value = values[Int(letter)]
            guard value != 0xFF else { return nil }
            buffer = (buffer << 6 | UInt32(value)) & 0xFFFF
            bits += 6
            guard bits >= 8 else { continue }
            bits -= 8
            bytes.append(UInt8(truncatingIfNeeded: buffer >> bits))
        }
        return bits < 6 && buffer & ((1 << bits) - 1) == 0 ? bytes : nil
    }
}
