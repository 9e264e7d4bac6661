/// Marks behind a letter, such as accents. Swift compares and hashes strings by canonical equivalence, and sorts each
/// run of marks for that, in time quadratic in its length: 64 KB of them took half a second. So no text from outside
/// may have a long run; it is refused where it becomes a string.
package enum CombiningMarks {
    /// Unicode's Stream-Safe Text Format (UAX #15) has 30, and says that no text in use has more.
    package static let maxRun = 64

    /// Whether no run of marks in `text` is longer than ``maxRun``. One look at each byte where there are none.
    ///
    /// Every text of a request passes here, from other modules: generic over its text it took a quarter of a fetch.
    package static func areFew(in text: String) -> Bool {
        // The first mark is U+0300. A native string has its bytes in one piece.
        let mayHaveMarks = text.utf8.withContiguousStorageIfAvailable { bytes in bytes.contains { $0 >= 0xCC } }
        guard mayHaveMarks ?? true else { return true }
        var run = 0
        for scalar in text.unicodeScalars {
            let isMark = scalar.value >= 0x300 && scalar.properties.canonicalCombiningClass != .notReordered
            run = isMark ? run + 1 : 0
            if run > maxRun { return false }
        }
        return true
    }
}
