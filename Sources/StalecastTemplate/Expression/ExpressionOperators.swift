extension ConditionExpression {
    /// Operators between numbers, versions or moments.
    package enum Comparison: String, Sendable, Hashable, CaseIterable {
        case less = "<"
        case lessOrEqual = "<="
        case equal = "=="
        case notEqual = "!="
        case greaterOrEqual = ">="
        case greater = ">"
    }

    /// Operators between a text and a list of texts.
    package enum TextOperator: String, Sendable, Hashable, CaseIterable {
        /// The text contains any of them.
        case contains
        /// The text contains none of them.
        case notContains
        /// The text is one of them.
        case exactlyMatches
        /// Any of them, as a regular expression of RE2, is found anywhere in the text.
        case matches
    }

    /// Operators between a set (of audiences, of segments) and a list of names.
    package enum SetOperator: String, Sendable, Hashable, CaseIterable {
        case inAtLeastOne
        case notInAtLeastOne
        case inAll
        case notInAll
    }
}
