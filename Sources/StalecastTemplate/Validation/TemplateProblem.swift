/// One thing that is wrong with a template.
package struct TemplateProblem: Sendable, Hashable, CustomStringConvertible {
    /// Path: `parameters.foo.defaultValue`, `conditions[2].name`; empty for the document as a whole.
    package let path: String
    /// Google's word for the kind of problem, one of ``Token``'s raw values, for example `VALIDATION_ERROR`.
    package let token: String
    /// Problem and remedy, for the person who wrote the template; ends with line and column where the text is known.
    package let message: String
    /// Place in the text; nil for the document as a whole and where there is no text.
    package let place: TextPlace?
    private let position: TemplatePath

    /// Google's bracketed error tokens, as far as a template can cause them.
    package enum Token: String, Sendable, CaseIterable {
        /// The document does not have a template's shape; written without brackets, as Google's JSON layer does.
        case invalidArgument = "INVALID_ARGUMENT"
        case validationError = "VALIDATION_ERROR"
        case duplicateKey = "DUPLICATE_KEY"
        case valueTypeMismatch = "PARAM_VALUE_TYPE_MISMATCH"
        case invalidInAppDefault = "INVALID_IN_APP_DEFAULT_VALUE"
    }

    init(_ position: TemplatePath, token: Token, message: String) {
        path = position.text
        self.position = position
        self.token = token.rawValue
        self.message = message
        place = nil
    }

    private init(_ problem: TemplateProblem, at place: TextPlace) {
        (path, position, token) = (problem.path, problem.position, problem.token)
        self.place = place
        message = "\(problem.message) (line \(place.line), column \(place.column))"
    }

    /// Problems with their places in the text that was read.
    static func located(_ problems: [TemplateProblem], in text: [UInt8]) -> [TemplateProblem] {
        zip(problems, PlaceFinder.places(of: problems.map(\.position), in: text)).map { problem, place in
            place.map { TemplateProblem(problem, at: $0) } ?? problem
        }
    }

    /// `[VALIDATION_ERROR]: …`, the form Firebase's SDKs parse.
    package var description: String {
        token == Token.invalidArgument.rawValue ? message : "[\(token)]: \(message)"
    }
}

/// Everything that is wrong with a template.
package struct TemplateProblems: Error, Sendable, Hashable, CustomStringConvertible {
    /// Problems in the order they were found; at most ``maxListed``, at least one when thrown.
    package private(set) var problems: [TemplateProblem] = []
    /// Number of further problems.
    package private(set) var omitted = 0

    /// No more problems than this are put in words.
    package static let maxListed = 20

    /// All of them, one per line, the first one's token at the very beginning; says how many were left out.
    package var message: String {
        var lines = problems.map(\.description)
        if omitted > 0 { lines.append("… and \(omitted) more problem\(omitted == 1 ? "" : "s")") }
        return lines.joined(separator: "\n")
    }

    package var description: String { message }

    /// Notes a problem; beyond ``maxListed`` it is only counted and its text never made.
    mutating func add(
        _ token: TemplateProblem.Token = .validationError, at path: @autoclosure () -> TemplatePath,
        _ message: @autoclosure () -> String
    ) {
        guard problems.count < Self.maxListed else { return omitted += 1 }
        problems.append(TemplateProblem(path(), token: token, message: message()))
    }

    /// - Parameter text: what the template was read from; nil when there is none.
    func throwIfAny(in text: [UInt8]? = nil) throws(TemplateProblems) {
        guard !problems.isEmpty else { return }
        var located = self
        if let text { located.problems = TemplateProblem.located(problems, in: text) }
        throw located
    }
}

extension StringProtocol {
    /// Safe to show: at most 100 characters, no control characters that a terminal or a log would obey.
    var shown: String {
        let clipped = unicodeScalars.prefix(101)
        let isClipped = clipped.count > 100
        var text = String.UnicodeScalarView()
        for scalar in clipped.prefix(100) { text.append(scalar.isControl ? "\u{FFFD}" : scalar) }
        return String(text) + (isClipped ? "…" : "")
    }
}

extension Unicode.Scalar {
    /// Controls, line and paragraph separators, and direction overrides.
    fileprivate var isControl: Bool {
        switch value {
        case 0..<0x20, 0x7F..<0xA0, 0x2028...0x202E, 0x2066...0x2069: true
        default: false
        }
    }
}
