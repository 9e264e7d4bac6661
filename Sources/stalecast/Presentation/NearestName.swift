/// The name that somebody may have meant who wrote another.
package struct NearestName {
    /// nil when the word is one of the names, or is near to none.
    package let name: String?

    package init(of word: String, among names: [String]) {
        guard !names.contains(word), word.count <= 40 else {
            name = nil
            return
        }
        let near = names.map { (name: $0, steps: Self.steps(Array(word), Array($0))) }.min { $0.steps < $1.steps }
        name = near.flatMap { $0.steps <= max(1, $0.name.count / 3) ? $0.name : nil }
    }

    /// How many letters must be added, removed or changed (Levenshtein).
    private static func steps(_ word: [Character], _ other: [Character]) -> Int {
        var row = Array(0...other.count)
        for (index, letter) in word.enumerated() {
            var diagonal = row[0]
            row[0] = index + 1
            for (column, candidate) in other.enumerated() {
                let change = diagonal + (letter == candidate ? 0 : 1)
                diagonal = row[column + 1]
                row[column + 1] = min(change, row[column + 1] + 1, row[column] + 1)
            }
        }
        return row[other.count]
    }
}
