/// One thing that is wrong with the configuration, and where it was written.
package struct ConfigurationProblem: Sendable, Hashable, CustomStringConvertible {
    package enum Origin: Sendable, Hashable {
        /// `line` counts from 1; nil when the problem has no single place.
        case file(String, line: Int?)
        case variable(String)
        /// A flag of the command line.
        case flag(String)
    }

    package let origin: Origin
    /// Problem and remedy; one line, whatever the file contains.
    package let sentence: String

    /// Control characters in `sentence` are escaped and its middle is left out if it is long: it quotes foreign text.
    init(origin: Origin, sentence: String) {
        let escaped = sentence.unicodeScalars.map { scalar in
            scalar.properties.generalCategory == .control ? scalar.escaped(asASCII: true) : String(scalar)
        }.joined()
        self.origin = origin
        self.sentence = escaped.count <= 600 ? escaped : "\(escaped.prefix(300))…\(escaped.suffix(250))"
    }

    package var description: String {
        switch origin {
        case .file(let name, let line?): "\(name):\(line): \(sentence)"
        case .file(let name, nil): "\(name): \(sentence)"
        case .variable(let name), .flag(let name): "\(name): \(sentence)"
        }
    }

    /// Orders by source, then by line.
    fileprivate var rank: (Int, Int) {
        switch origin {
        case .file(_, let line): (0, line ?? 0)
        case .variable: (1, 0)
        case .flag: (2, 0)
        }
    }
}

/// All problems of one attempt to load, at least one: those of the file by line, then variables, then flags.
/// `description` has one line for each: `stalecast.yaml:7: edge.heartbeat: "25" is no duration; …`.
package struct ConfigurationProblems: Error, Sendable, Equatable, CustomStringConvertible {
    package let problems: [ConfigurationProblem]

    init(_ problems: [ConfigurationProblem]) {
        let ranked = problems.enumerated().sorted { a, b in
            a.element.rank == b.element.rank ? a.offset < b.offset : a.element.rank < b.element.rank
        }
        self.problems = ranked.map(\.element)
    }

    package var description: String { problems.map(\.description).joined(separator: "\n") }

    /// Names in problems that stand for no file.
    private static let unnamed: Set = ["standard input", "defaults"]

    /// Path of the configuration file when something is wrong in it; nil when all is elsewhere, or nothing was a file.
    var file: String? {
        for problem in problems {
            if case .file(let name, _) = problem.origin, !Self.unnamed.contains(name) { return name }
        }
        return nil
    }
}
