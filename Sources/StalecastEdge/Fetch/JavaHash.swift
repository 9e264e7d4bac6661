/// Java's `String.hashCode`, which Firebase puts into the ETags of fetches.
package enum JavaHash {
    /// - Parameter text: hashed by UTF-16 unit; `h = 31 * h + unit`, wrapping at 32 bits.
    package static func of(_ text: String) -> Int32 {
        var hash: Int32 = 0
        for unit in text.utf16 { hash = hash &* 31 &+ Int32(unit) }
        return hash
    }
}
