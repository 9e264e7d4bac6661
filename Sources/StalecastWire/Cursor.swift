/// The random identity of a store: 26 characters of base32 (128 bits), lower case. New on restore.
package struct Epoch: Hashable, Sendable, CustomStringConvertible {
    package let description: String

    private static let alphabet = Array("abcdefghijklmnopqrstuvwxyz234567".utf8)

    package init?(_ text: String) {
        guard text.utf8.count == 26, text.utf8.allSatisfy(Self.alphabet.contains) else { return nil }
        description = text
    }

    private init(known: String) { description = known }

    /// A new identity from `generator`; the default is the system's secure generator.
    package static func random() -> Epoch {
        var generator = SystemRandomNumberGenerator()
        return random(using: &generator)
    }

    package static func random(using generator: inout some RandomNumberGenerator) -> Epoch {
        // 26 letters of 5 bits are 130: the store needs 128.
        let letters = (0..<26).map { _ in alphabet[Int(generator.next() & 31)] }
        return Epoch(known: String(decoding: letters, as: UTF8.self))
    }
}

/// A place in a store's history, `<epoch>.<sequence>`: the SSE `id` and the long-poll `cursor`.
package struct Cursor: Hashable, Sendable, CustomStringConvertible {
    package let epoch: Epoch
    package let sequence: CommitSequence

    package init(epoch: Epoch, sequence: CommitSequence) {
        self.epoch = epoch
        self.sequence = sequence
    }

    /// nil unless `text` is exactly what `description` prints: no sign, no leading zero.
    package init?(_ text: some StringProtocol) {
        guard text.utf8.count <= 64, let dot = text.firstIndex(of: "."),
            let epoch = Epoch(String(text[..<dot])),
            let sequence = Self.canonicalNumber(text[text.index(after: dot)...].utf8)
        else { return nil }
        self.init(epoch: epoch, sequence: sequence)
    }

    package var description: String { "\(epoch).\(sequence)" }

    private static func canonicalNumber(_ digits: some Collection<UInt8>) -> UInt64? {
        guard let first = digits.first, digits.count == 1 || first != 0x30 else { return nil }
        var value: UInt64 = 0
        for digit in digits {
            guard (0x30...0x39).contains(digit) else { return nil }
            let (product, overflow) = value.multipliedReportingOverflow(by: 10)
            let (sum, carry) = product.addingReportingOverflow(UInt64(digit - 0x30))
            if overflow || carry { return nil }
            value = sum
        }
        return value
    }
}
