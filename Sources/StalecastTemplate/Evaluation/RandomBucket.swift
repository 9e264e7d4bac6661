import Crypto

/// Place of an instance among all instances: 0 to 99,999,999 millionths of a percent, evenly spread, the same for the
/// same instance and seed on every server. The algorithm is that of Firebase's Admin SDKs, so that client and server
/// templates agree.
enum RandomBucket {
    /// One more than the highest bucket: 100 % in millionths of a percent.
    static let count: UInt64 = 100_000_000

    /// SHA-256 of `<seed>.<id>` (of the id alone without a seed) as one big-endian integer, modulo ``count``.
    static func of(_ id: String, seed: String) -> UInt32 {
        let input = seed.isEmpty ? id : "\(seed).\(id)"
        var remainder: UInt64 = 0
        // Takes the remainder byte by byte: it stays below 2^27, so that nothing overflows.
        for byte in SHA256.hash(data: Array(input.utf8)) { remainder = (remainder << 8 + UInt64(byte)) % count }
        return UInt32(remainder)
    }

    /// A bucket as a percentage with 6 decimals, for explanations.
    static func percentage(_ micros: UInt32) -> String {
        let decimals = String(micros % 1_000_000 + 1_000_000).dropFirst()
        return "\(micros / 1_000_000).\(decimals)"
    }
}
