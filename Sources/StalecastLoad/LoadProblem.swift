/// Why a load cannot begin or go on, as whoever runs it is told.
package struct LoadProblem: Error, Sendable {
    /// What the command line makes its exit code of.
    package enum Kind: Sendable { case usage, refused, unreachable, outcomeUnknown }

    package let kind: Kind
    /// A sentence without its full stop, beginning with a lower-case letter.
    package let sentence: String
    /// What to do now; nil when nothing sensible can be said.
    package let advice: String?

    init(_ kind: Kind, _ sentence: String, advice: String? = nil) {
        self.kind = kind
        self.sentence = sentence
        self.advice = advice
    }
}
