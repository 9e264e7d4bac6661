/// A text of any size made of one piece, repeated: an input for ``expectLinear(upTo:_:_:)``.
package struct GrowingText: Sendable, CustomStringConvertible {
    private let head: String
    private let pieces: [Substring]
    private let tail: String

    /// - Parameters:
    ///   - piece: repeated; `#` in it is the number of the repetition, from 0.
    ///   - head: what the text begins with.
    ///   - tail: what it ends with.
    package init(_ piece: String, after head: String = "", before tail: String = "") {
        self.head = head
        self.tail = tail
        pieces = piece.split(separator: "#", omittingEmptySubsequences: false)
    }

    /// Begin of the text, for the name of a test's case.
    package var description: String { String((head + pieces.joined(separator: "#")).prefix(40)) }

    /// - Parameter size: bytes, about.
    package func text(_ size: Int) -> String {
        String(decoding: bytes(size), as: UTF8.self)
    }

    /// ``text(_:)`` as UTF-8.
    package func bytes(_ size: Int) -> [UInt8] {
        var bytes = Array(head.utf8)
        bytes.reserveCapacity(size + 64)
        let room = max(size - bytes.count - tail.utf8.count, 1)
        if pieces.count == 1 {
            let piece = Array(pieces[0].utf8)
            for _ in 0..<(room + piece.count - 1) / piece.count { bytes += piece }
        } else {
            let (end, pieces) = (bytes.count + room, pieces.map { Array($0.utf8) })
            var number = 0
            while bytes.count < end {
                bytes += Array(pieces.joined(separator: Array(String(number).utf8)))
                number += 1
            }
        }
        return bytes + tail.utf8
    }
}
