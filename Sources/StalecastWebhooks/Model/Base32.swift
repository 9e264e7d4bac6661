import Crypto

/// Short deterministic names made by hashing.
enum Base32 {
    private static let alphabet = Array("abcdefghijklmnopqrstuvwxyz234567".utf8)

    /// The first `length` (at most 51) characters of the base32 of SHA-256 over the parts, each closed by a NUL, so
    /// that `("ab","c")` and `("a","bc")` differ.
    static func token(of parts: String..., length: Int) -> String {
        var hash = SHA256()
        for part in parts {
            hash.update(data: Array(part.utf8))
            hash.update(data: [0])
        }
        return String(decoding: characters(Array(hash.finalize())).prefix(length), as: UTF8.self)
    }

    /// `bytes` in groups of five bits, lower case, without padding; a last incomplete group is filled with zeros.
    static func characters(_ bytes: [UInt8]) -> [UInt8] {
        var letters: [UInt8] = []
        letters.reserveCapacity((bytes.count * 8 + 4) / 5)
        var buffer: UInt32 = 0
        var bits = 0
        for byte in bytes {
            buffer = buffer << 8 | UInt32(byte)
            bits += 8
            while bits >= 5 {
                bits -= 5
                letters.append(alphabet[Int(buffer >> UInt32(bits)) & 31])
            }
        }
        if bits > 0 { letters.append(alphabet[Int(buffer << UInt32(5 - bits)) & 31]) }
        return letters
    }
}
