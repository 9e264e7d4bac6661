/// An API key as it is shown once and then presented: `stc_<p|s>_<id 10>_<secret 43><checksum 6>`, in base62. The
/// prefix lets scanners of leaked secrets find it, the checksum tells a typing error from a key that is not ours.
package struct APIKey: Sendable, Hashable {
    /// Raw values are in the text.
    package enum Kind: String, Sendable, CaseIterable {
        /// May be in apps and pages, so it can only watch and fetch.
        case publishable = "p"
        case secret = "s"

        /// `publishable` or `secret`, as the API and the command line say it.
        package var word: String { self == .publishable ? "publishable" : "secret" }

        package init?(word: String) {
            guard let kind = Self.allCases.first(where: { $0.word == word }) else { return nil }
            self = kind
        }
    }

    package let kind: Kind
    /// Names the key in lists and logs; no secret.
    package let id: String
    /// All of it. A secret.
    package let text: String

    /// Reason why a text is no key.
    package enum Flaw: Error { case foreign, typo }

    package static let prefix = "stc_"
    private static let idLength = 10
    /// 62⁴³ > 2²⁵⁶.
    private static let secretLength = 43
    private static let checksumLength = 6
    private static let alphabet = Array("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz".utf8)

    package init(_ text: some StringProtocol) throws(Flaw) {
        let text = String(text)
        guard text.hasPrefix(Self.prefix) else { throw .foreign }
        let parts = text.utf8.split(separator: UInt8(ascii: "_"), omittingEmptySubsequences: false)
        guard parts.count == 4, let kind = Kind(rawValue: String(decoding: parts[1], as: UTF8.self)),
            parts[2].count == Self.idLength, parts[3].count == Self.secretLength + Self.checksumLength,
            parts[2].allSatisfy(\.isBase62), parts[3].allSatisfy(\.isBase62),
            text.utf8.suffix(Self.checksumLength).elementsEqual(
                Self.checksum(of: text.utf8.dropLast(Self.checksumLength)))
        else { throw .typo }
        self.kind = kind
        id = String(decoding: parts[2], as: UTF8.self)
        self.text = text
    }

    /// A new one.
    ///
    /// - Parameter id: of the key that gets another secret; nil makes an id as well.
    package init(
        _ kind: Kind, id: String? = nil, using generator: inout some RandomNumberGenerator
    ) {
        func letters(_ count: Int) -> String {
            String(decoding: (0..<count).map { _ in Self.alphabet.randomElement(using: &generator)! }, as: UTF8.self)
        }
        self.kind = kind
        self.id = id ?? letters(Self.idLength)
        let body = "\(Self.prefix)\(kind.rawValue)_\(self.id)_\(letters(Self.secretLength))"
        text = body + String(decoding: Self.checksum(of: body.utf8), as: UTF8.self)
    }

    package static func isID(_ text: String) -> Bool {
        text.utf8.count == idLength && text.utf8.allSatisfy(\.isBase62)
    }

    package var digest: SecretDigest { SecretDigest(of: text) }

    /// CRC-32 (ISO 3309) in base62, as GitHub's tokens have it.
    private static func checksum(of bytes: some Sequence<UInt8>) -> [UInt8] {
        var crc = UInt32.max
        for byte in bytes {
            crc ^= UInt32(byte)
            for _ in 0..<8 { crc = crc & 1 == 1 ? crc >> 1 ^ 0xEDB8_8320 : crc >> 1 }
        }
        crc = ~crc
        var digits: [UInt8] = []
        for _ in 0..<checksumLength {
            digits.append(alphabet[Int(crc % 62)])
            crc /= 62
        }
        return digits.reversed()
    }
}

extension UInt8 {
    fileprivate var isBase62: Bool {
        switch self {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        default: false
        }
    }
}
