/// A text compared byte by byte, as Firebase's servers compare: Swift's own comparison takes a composed and a
/// decomposed letter for the same.
struct ExactText: Hashable, Sendable {
    let bytes: [UInt8]

    init(_ text: some StringProtocol) { bytes = Array(text.utf8) }

    private init(bytes: [UInt8]) { self.bytes = bytes }

    /// Text without blanks and line ends around it.
    var trimmed: ExactText { ExactText(bytes: Array(bytes.trimmingBlanks)) }
}

extension ExactText {
    /// Texts one of which is looked for. A text longer than all of them is not even hashed, so that a stranger's long text
    /// costs nothing, however many tests ask about it.
    struct Choices: Sendable {
        private let texts: Set<ExactText>
        private let longest: Int

        init(_ texts: some Sequence<ExactText>) {
            self.texts = Set(texts)
            longest = self.texts.map(\.bytes.count).max() ?? 0
        }

        init(_ texts: [String]) { self.init(texts.map { ExactText($0) }) }

        func contains(_ text: ExactText) -> Bool { text.bytes.count <= longest && texts.contains(text) }
    }
}

/// A text to search for. The search takes time linear in the searched text (Knuth, Morris and Pratt), so that no pair
/// of texts is slow.
struct SoughtText: Sendable {
    private let bytes: [UInt8]
    /// Length of the longest proper beginning that is also an end, for each beginning of the text.
    private let borders: [Int]

    init(_ text: String) {
        let bytes = Array(text.utf8)
        var borders = Array(repeating: 0, count: bytes.count)
        var border = 0
        for index in bytes.indices.dropFirst() {
            while border > 0, bytes[border] != bytes[index] { border = borders[border - 1] }
            if bytes[border] == bytes[index] { border += 1 }
            borders[index] = border
        }
        self.bytes = bytes
        self.borders = borders
    }

    func isFound(in text: ExactText) -> Bool {
        guard !bytes.isEmpty else { return true }
        var matched = 0
        for byte in text.bytes {
            while matched > 0, bytes[matched] != byte { matched = borders[matched - 1] }
            if bytes[matched] == byte { matched += 1 }
            if matched == bytes.count { return true }
        }
        return false
    }
}

extension Array where Element == UInt8 {
    /// Bytes without ASCII blanks at either end.
    var trimmingBlanks: ArraySlice<UInt8> {
        let isBlank = { (byte: UInt8) in byte == 0x20 || (0x09...0x0D).contains(byte) }
        guard let first = firstIndex(where: { !isBlank($0) }), let last = lastIndex(where: { !isBlank($0) }) else {
            return []
        }
        return self[first...last]
    }
}
