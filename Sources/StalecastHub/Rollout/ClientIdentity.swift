import Crypto
package import StalecastWire
import Synchronization

/// Identity that a client gives itself. A claim: it decides nothing about what is sent.
package struct ClientIdentity: Sendable, Hashable {
    /// 1 to 128 characters of `[A-Za-z0-9._~:@-]`.
    package let id: String
    /// Name of the app and of the library that speaks for it, at most ``maxLabelBytes`` each; empty when it does not
    /// say.
    package let app: String
    package let sdk: String
    /// The version it says it runs; nil when it does not say.
    package var active: VersionNumber?

    private static let maxIDBytes = 128
    /// Longer ones are cut.
    private static let maxLabelBytes = 64

    /// nil for an id that is none.
    package init?(_ id: String, app: String = "", sdk: String = "", active: VersionNumber? = nil) {
        guard Self.isID(id) else { return nil }
        self.id = id
        self.app = Self.label(app)
        self.sdk = Self.label(sdk)
        self.active = active
    }

    private static func isID(_ text: String) -> Bool {
        var text = text
        return text.withUTF8 { bytes in
            guard (1...maxIDBytes).contains(bytes.count) else { return false }
            return bytes.allSatisfy { byte in
                switch byte {
                // Alphanumeric, and `-.:@_~`.
                case 0x30...0x3A, 0x40...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: true
                default: false
                }
            }
        }
    }

    private static func label(_ text: String) -> String {
        let bytes = text.utf8
        if bytes.count <= maxLabelBytes { return text }
        // By bytes: a run of flags is one long grapheme search for each `removeLast`, so a stranger's 60 KB cost a second.
        var end = bytes.index(bytes.startIndex, offsetBy: maxLabelBytes)
        while end > bytes.startIndex, bytes[end] & 0xC0 == 0x80 { end = bytes.index(before: end) }
        return String(decoding: bytes[..<end], as: UTF8.self)
    }

    /// Secret words of the nodes of a cluster, for ``key(in:)``; 0: none.
    private static let firstWord = Atomic<UInt64>(0)
    private static let secondWord = Atomic<UInt64>(0)

    /// Makes keys the same, from now on, in all processes with this secret. Before the first key is made.
    package static func share(secret: String) {
        let bytes = Array(SHA256.hash(data: Array(secret.utf8)))
        func word(_ from: Int) -> UInt64 { bytes[from..<from + 8].reduce(0) { $0 << 8 | UInt64($1) } }
        firstWord.store(word(0), ordering: .relaxed)
        secondWord.store(word(8) | 1, ordering: .relaxed)
    }

    /// Key under which it is counted in a scope: the same as long as the process lives, another one in the next
    /// process, but for nodes of one cluster.
    package func key(in scope: Scope) -> UInt64 {
        let words = (Self.firstWord.load(ordering: .relaxed), Self.secondWord.load(ordering: .relaxed))
        if words.1 != 0 { return Self.keyed("\(scope)\0\(id)".utf8, words) }
        var hasher = Hasher()
        hasher.combine(scope)
        hasher.combine(id)
        return UInt64(bitPattern: Int64(hasher.finalize()))
    }

    /// SipHash-1-3: who does not know the key makes no ids that collide.
    private static func keyed(_ bytes: String.UTF8View, _ key: (UInt64, UInt64)) -> UInt64 {
        var (a, b) = (key.0 ^ 0x736F_6D65_7073_6575, key.1 ^ 0x646F_7261_6E64_6F6D)
        var (c, d) = (key.0 ^ 0x6C79_6765_6E65_7261, key.1 ^ 0x7465_6462_7974_6573)
        func round() {
            a &+= b
            b = (b << 13 | b >> 51) ^ a
            a = a << 32 | a >> 32
            c &+= d
            d = (d << 16 | d >> 48) ^ c
            a &+= d
            d = (d << 21 | d >> 43) ^ a
            c &+= b
            b = (b << 17 | b >> 47) ^ c
            c = c << 32 | c >> 32
        }
        var (word, count) = (UInt64(0), UInt64(0))
        func take(_ word: UInt64) {
            d ^= word
            round()
            a ^= word
        }
        for byte in bytes {
            word |= UInt64(byte) << (8 * (count & 7))
            count += 1
            if count & 7 == 0 {
                take(word)
                word = 0
            }
        }
        // SipHash ends with the length, so that texts of zeros differ by their number.
        take(word | count << 56)
        c ^= 0xFF
        for _ in 0..<3 { round() }
        return a ^ b ^ c ^ d
    }
}

package struct ClientArrival: Sendable {
    let client: ClientIdentity
    let scope: Scope
    let topics: Set<Topic.Index>
    let isPoll: Bool
    /// The version that it has by its own word; 0 when it names none.
    let held: VersionNumber
    /// Newest sequence that its loop had announced: the audience of a newer version includes it.
    let head: CommitSequence

    package init(
        _ client: ClientIdentity, _ scope: Scope, topics: Set<Topic.Index>, isPoll: Bool, held: VersionNumber,
        head: CommitSequence
    ) {
        (self.client, self.scope, self.topics) = (client, scope, topics)
        (self.isPoll, self.held, self.head) = (isPoll, held, head)
    }
}
