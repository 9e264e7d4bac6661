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
        guard text.utf8.count <= 64, let dot = text.firstIndex(of: "."), let epoch = Epoch(String(text[..<dot]))
        else { return nil }
        let digits = text[text.index(after: dot)...]
        // Swift reads a sign and leading zeros too.
        guard let first = digits.utf8.first, (0x31...0x39).contains(first) || digits.utf8.elementsEqual("0".utf8),
            let sequence = CommitSequence(digits)
        else { return nil }
        self.init(epoch: epoch, sequence: sequence)
    }

    package var description: String { "\(epoch).\(sequence)" }
}
