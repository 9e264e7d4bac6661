import StalecastEdge
import StalecastWire
import Testing

/// Tests what the daemon's own subscriber reads of its stream.
@Suite struct CanaryTests {
    /// Ends a read wherever the reader's buffer does after a burst, also within an id.
    @Test func itFindsTheNewestIDWhereverAPieceEnds() throws {
        let epoch = try #require(Epoch("abcdefghijklmnopqrstuvwxyz"))
        let events = (8...12).map { "1b\r\nid: \(epoch).\($0)\ndata: {\"id: \":1}\n\n\r\n" }
        let bytes = Array(events.joined().utf8)
        for size in 1...bytes.count {
            var (scan, found) = (CanaryScan(), [CommitSequence]())
            for start in stride(from: 0, to: bytes.count, by: size) {
                if let cursor = scan.take(Array(bytes[start..<min(start + size, bytes.count)])) {
                    found.append(cursor.sequence)
                }
            }
            #expect(found.last == 12 && found == found.sorted() && Set(found).count == found.count, "pieces of \(size)")
        }
    }
}
