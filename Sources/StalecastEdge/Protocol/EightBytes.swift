/// Eight bytes of a text that are looked at together: most of a request is long values, of which every byte is ordinary.
struct EightBytes {
    private let word: UInt64

    private static let highBits: UInt64 = 0x8080_8080_8080_8080
    private static let lowBits: UInt64 = 0x0101_0101_0101_0101

    /// nil where fewer than eight are left.
    init?(_ bytes: UnsafeBufferPointer<UInt8>, at index: Int) {
        guard bytes.count - index >= 8, let base = bytes.baseAddress else { return nil }
        word = UnsafeRawPointer(base + index).loadUnaligned(as: UInt64.self)
    }

    /// Whether each is printable ASCII, the blank included.
    var arePrintable: Bool { unprintable & Self.highBits == 0 }

    /// Whether each is printable ASCII, and none is a quote or a backslash.
    var arePlainText: Bool { (unprintable | places(of: 0x22) | places(of: 0x5C)) & Self.highBits == 0 }

    /// The high bit of a byte is set where that is not printable; behind a byte beyond ASCII it may be set too.
    private var unprintable: UInt64 {
        word | (word &+ Self.lowBits) | ~(word &+ 0x60 &* Self.lowBits)
    }

    /// The high bit of a byte is set where that is `byte`, as long as all are ASCII.
    private func places(of byte: UInt64) -> UInt64 { ~((word ^ byte &* Self.lowBits) &+ 0x7F &* Self.lowBits) }
}
