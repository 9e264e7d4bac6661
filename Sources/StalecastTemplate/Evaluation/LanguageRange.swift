/// A language as a condition names it. A tag without a region takes every region of it: `en` takes `en` and `en-US`,
/// `zh-Hans` takes `zh-Hans-CN`; one with a region takes only itself. Case and `_` for `-` make no difference.
struct LanguageRange: Sendable {
    private let tag: [UInt8]
    private let takesRegions: Bool

    init(_ literal: String) {
        tag = Self.normalized(literal)
        takesRegions = !tag.split(separator: UInt8(ascii: "-")).dropFirst().contains { part in
            let isAlphabetic = part.allSatisfy { (0x61...0x7A).contains($0) }
            let isNumeric = part.allSatisfy { (0x30...0x39).contains($0) }
            // A region has two letters (ISO 3166-1) or three digits (UN M.49).
            return (part.count == 2 && isAlphabetic) || (part.count == 3 && isNumeric)
        }
    }

    /// Whether it takes `language`, normalized.
    func takes(_ language: [UInt8]) -> Bool {
        guard language.starts(with: tag) else { return false }
        // The next byte must begin a subtag: `en` must not take `eng`.
        return language.count == tag.count || (takesRegions && language[tag.count] == UInt8(ascii: "-"))
    }

    /// ASCII letters small, `_` as `-`.
    static func normalized(_ tag: String) -> [UInt8] {
        tag.utf8.map { byte in
            switch byte {
            case UInt8(ascii: "_"): UInt8(ascii: "-")
            case 0x41...0x5A: byte | 0x20
            default: byte
            }
        }
    }
}
