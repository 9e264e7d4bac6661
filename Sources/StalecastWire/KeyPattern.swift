/// A glob over parameter names, for example `pay_*`, which matches `pay_limit`. It has 1 to 256 characters of
/// `[A-Za-z0-9_*?]`.
package struct KeyPattern: Sendable, Hashable, CustomStringConvertible {
    private let glob: Glob

    /// The glob as it was given.
    package var description: String { glob.description }

    package init(_ glob: String) throws(InvalidName) {
        let legal = glob.utf8.allSatisfy { $0.isASCIIAlphanumeric || "_*?".utf8.contains($0) }
        guard legal, (1...256).contains(glob.utf8.count) else {
            throw InvalidName(description: "a key pattern has 1 to 256 characters of A-Z a-z 0-9 _ * ?")
        }
        self.glob = Glob(glob)
    }

    /// True when the whole of `key` fits.
    package func matches(_ key: String) -> Bool { glob.matches(key) }
}
