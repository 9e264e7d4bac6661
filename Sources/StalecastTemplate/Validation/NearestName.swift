/// The one of `candidates` with the smallest edit distance to `name`, capitals ignored; nil if none is near: more than
/// a third of the letters would be others. Of several equally near the first.
///
/// - Parameter prefix: what `name` and the candidates have in common; not counted.
package func nearestName(to name: String, of candidates: [String], prefix: String = "") -> String? {
    // A name far longer than any key is no misspelling; it must not cost time either.
    let wanted = Array(name.lowercased().unicodeScalars.prefix(100))
    return candidates.map { ($0, editDistance(wanted, Array($0.lowercased().unicodeScalars))) }
        .min { $0.1 < $1.1 }
        .flatMap { $0.1 <= max(2, (wanted.count - prefix.count) / 3) ? $0.0 : nil }
}

/// Edits (insert, delete, replace) that turn `a` into `b`.
package func editDistance(_ a: [Unicode.Scalar], _ b: [Unicode.Scalar]) -> Int {
    var row = Array(0...b.count)
    for (i, left) in a.enumerated() {
        var diagonal = row[0]
        row[0] = i + 1
        for (j, right) in b.enumerated() {
            let replaced = diagonal + (left == right ? 0 : 1)
            diagonal = row[j + 1]
            row[j + 1] = min(replaced, row[j] + 1, diagonal + 1)
        }
    }
    return row[b.count]
}
