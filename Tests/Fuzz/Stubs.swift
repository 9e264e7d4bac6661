/// Stub without SHA-256: what is fuzzed does not depend on where an instance falls.
enum RandomBucket {
    static let count: UInt64 = 100_000_000

    static func of(_ id: String, seed: String) -> UInt32 {
        UInt32((id + seed).utf8.reduce(UInt64(7)) { ($0 &* 31 &+ UInt64($1)) % count })
    }

    static func percentage(_ micros: UInt32) -> String { "\(micros)" }
}
