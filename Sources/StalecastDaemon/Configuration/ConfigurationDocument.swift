import StalecastSources
import Yams

/// The file as a tree of nodes with marks, and what its syntax was blamed for.
struct ConfigurationDocument {
    /// Nil for a file without content.
    let root: Node?
    let problems: [ConfigurationProblem]
    /// Keys that stand for those reported as set twice; their values are left out.
    let renamedKeys: Set<String>

    /// More keys set twice than this are not reported in one go.
    private static let maxDuplicates = 20

    /// Composes `text`; throws when nothing can be read from it. A key set twice stops the parser, which would hide every
    /// other problem: it is noted, its first appearance renamed, and the text composed again.
    init(text: String, file: String) throws(ConfigurationProblems) {
        var text = text
        var problems: [ConfigurationProblem] = []
        if let problem = Self.obstacle(in: text, file) { throw ConfigurationProblems([problem]) }
        var renamed: Set<String> = []
        while true {
            do {
                let root = try compose(yaml: text)
                self.init(root: root, problems: problems, renamedKeys: renamed)
                return
            } catch {
                problems.append(Self.problem(error, file))
                guard case YamlError.duplicatedKeysInMapping(let names, let context) = error,
                    let name = names.first, renamed.count < Self.maxDuplicates
                else { throw ConfigurationProblems(problems) }
                // No configuration has such a key: U+E000 is for private use.
                let prefix = "\u{E000}\(renamed.count)-"
                let isRenamed = text.insert(prefix, beforeKey: name, at: context.mark)
                if !isRenamed { throw ConfigurationProblems(problems) }
                renamed.insert(prefix + name)
            }
        }
    }

    private init(root: Node?, problems: [ConfigurationProblem], renamedKeys: Set<String>) {
        (self.root, self.problems, self.renamedKeys) = (root, problems, renamedKeys)
    }

    /// Anchors are refused: aliases of aliases grow a short file into a tree that takes for ever to compare and to free,
    /// and no configuration needs them.
    private static func obstacle(in text: String, _ file: String) -> ConfigurationProblem? {
        switch YAMLEvents.obstacle(in: Array(text.utf8), maxDepth: 16, maxNodes: 100_000) {
        case nil: nil
        case .anchor(let line):
            ConfigurationProblem(
                origin: .file(file, line: line),
                sentence: "anchors and aliases are not supported; write the value out, or put it in quotes if it is a "
                    + "text that begins with & or *")
        case .depth(let line), .count(let line), .marks(let line):
            ConfigurationProblem(
                origin: .file(file, line: line),
                sentence: "this is nested more deeply, or is more, than any configuration")
        }
    }

    private static func problem(_ error: any Error, _ file: String) -> ConfigurationProblem {
        let (line, sentence): (Int?, String) =
            switch error {
            case YamlError.scanner(let context, let problem, let mark, let yaml),
                YamlError.parser(let context, let problem, let mark, let yaml),
                YamlError.composer(let context, let problem, let mark, let yaml):
                (mark.line, notYAML + beginning(context, mark) + problem + hint(mark.snippet(from: yaml)))
            case YamlError.duplicatedKeysInMapping(let names, let context):
                (context.mark.line, "\(names.first ?? "a key") is set again further down; keep one of the two")
            case YamlError.reader(let problem, let offset, _, let yaml):
                (offset.map { yaml.prefix($0).count(where: \.isNewline) + 1 }, notYAML + problem)
            default: (nil, notYAML + String(describing: error))
            }
        return ConfigurationProblem(origin: .file(file, line: line), sentence: sentence)
    }

    /// Describes the parser's context, with its line if that is another one: for example a quote that was never closed.
    private static func beginning(_ context: YamlError.Context?, _ mark: Mark) -> String {
        guard let context else { return "" }
        let since = context.mark.line == mark.line ? "" : "from line \(context.mark.line) on "
        return "\(context.text) \(since)"
    }

    private static let notYAML = "this is not YAML: "

    /// `listen: [::1]:8080` is the one mistake that looks right.
    private static func hint(_ snippet: String) -> String {
        let line = snippet.split(separator: "\n").first ?? ""
        if line.prefix(while: \.isWhitespace).contains("\t") { return " (a tab; YAML indents with blanks only)" }
        return snippet.contains("]:") ? " (an address such as \"[::1]:8080\" must be in quotes)" : ""
    }
}

extension String {
    /// Inserts `prefix` into the key `name` that begins at `mark`, inside its quotes if it has any. False, and nothing
    /// done, if it is not spelled there literally.
    fileprivate mutating func insert(_ prefix: String, beforeKey name: String, at mark: Mark) -> Bool {
        guard var start = unicodeScalars.index(of: mark) else { return false }
        if start < endIndex, ["\"", "'"].contains(unicodeScalars[start]) { start = unicodeScalars.index(after: start) }
        guard unicodeScalars[start...].starts(with: name.unicodeScalars) else { return false }
        unicodeScalars.insert(contentsOf: prefix.unicodeScalars, at: start)
        return true
    }
}

extension String.UnicodeScalarView {
    /// The index of the scalar at `mark`; lines end where libYAML ends them.
    fileprivate func index(of mark: Mark) -> Index? {
        var index = startIndex
        var line = 1
        while line < mark.line {
            guard index < endIndex else { return nil }
            let scalar = self[index]
            formIndex(after: &index)
            if scalar == "\r", index < endIndex, self[index] == "\n" { formIndex(after: &index) }
            if ["\n", "\r", "\u{85}", "\u{2028}", "\u{2029}"].contains(scalar) { line += 1 }
        }
        return self.index(index, offsetBy: mark.column - 1, limitedBy: endIndex)
    }
}
