import StalecastWire

/// Path to a place in the document; made into text only for a problem.
indirect enum TemplatePath: Hashable, Sendable {
    case root
    case member(TemplatePath, String)
    case element(TemplatePath, Int)

    static let conditions = TemplatePath.member(.root, "conditions")
    static let parameters = TemplatePath.member(.root, "parameters")
    static let groups = TemplatePath.member(.root, "parameterGroups")
    static let versionDescription = TemplatePath.member(.member(.root, "version"), "description")

    /// Text, for example `parameters.foo.defaultValue` or `conditions[2]`; empty for the root.
    var text: String {
        switch self {
        case .root: ""
        case .member(.root, let name): name.shown
        case .member(let parent, let name): "\(parent.text).\(name.shown)"
        case .element(let parent, let index): "\(parent.text)[\(index)]"
        }
    }

    /// Begins a sentence about it: `parameters.foo: `; nothing for the root.
    var prefix: String { if case .root = self { "" } else { text + ": " } }

    /// Steps from the root on.
    fileprivate var steps: [TemplatePath] {
        switch self {
        case .root: []
        case .member(let parent, _), .element(let parent, _): parent.steps + [self]
        }
    }
}

/// A place in a document's text, from 1; columns count bytes.
package struct TextPlace: Hashable, Sendable {
    package let line: Int
    package let column: Int

    package init(line: Int, column: Int) {
        self.line = line
        self.column = column
    }
}

/// Finds where things stand in a text in one pass. The text has been parsed before: it is JSON.
struct PlaceFinder {
    /// A path on the way down to it.
    private struct Search {
        let index: Int
        var rest: ArraySlice<TemplatePath>
    }

    private let text: [UInt8]
    private var index: Int
    private var line = 1
    private var lineStart = 0
    private var found: [TextPlace?]

    /// - Returns: for each path the place of its name in the text, or of the deepest part of it that is there; nil for
    ///   the root and for what has no part there.
    static func places(of paths: [TemplatePath], in text: [UInt8]) -> [TextPlace?] {
        var finder = PlaceFinder(text, paths.count)
        finder.value(paths.enumerated().map { Search(index: $0, rest: $1.steps[...]) })
        return finder.found
    }

    private init(_ text: [UInt8], _ count: Int) {
        self.text = text
        index = text.starts(with: [0xEF, 0xBB, 0xBF]) ? 3 : 0
        found = [TextPlace?](repeating: nil, count: count)
    }

    /// Recursion is bounded as the parser's is.
    private mutating func value(_ searches: [Search]) {
        skip()
        guard index < text.count else { return }
        switch text[index] {
        case UInt8(ascii: "{"): object(searches)
        case UInt8(ascii: "["): array(searches)
        case UInt8(ascii: "\""): string()
        default: while index < text.count, !Self.endsWord.contains(text[index]) { index += 1 }
        }
    }

    private static let endsWord = Set(", \t\r\n]}".utf8)

    private mutating func object(_ searches: [Search]) {
        index += 1
        skip(",")
        while index < text.count, text[index] != UInt8(ascii: "}") {
            let place = TextPlace(line: line, column: index - lineStart + 1)
            let start = index
            string()
            let name = searches.isEmpty ? "" : Self.name(text[start..<index])
            skip(":")
            value(step(searches, to: place) { $0 == name || $0 == name.camelCased })
            skip(",")
        }
        index += 1
    }

    private mutating func array(_ searches: [Search]) {
        index += 1
        skip(",")
        var number = 0
        while index < text.count, text[index] != UInt8(ascii: "]") {
            let place = TextPlace(line: line, column: index - lineStart + 1)
            value(step(searches, to: place, number: number) { _ in false })
            number += 1
            skip(",")
        }
        index += 1
    }

    /// Paths that go on into this member or element; their place is this one, unless a deeper one follows.
    private mutating func step(
        _ searches: [Search], to place: TextPlace, number: Int? = nil, _ isName: (String) -> Bool
    ) -> [Search] {
        var deeper: [Search] = []
        for var search in searches {
            switch search.rest.first {
            case .member(_, let name) where isName(name): break
            case .element(_, number): break
            default: continue
            }
            found[search.index] = place
            search.rest = search.rest.dropFirst()
            deeper.append(search)
        }
        return deeper
    }

    private static func name(_ quoted: ArraySlice<UInt8>) -> String {
        // Parsed before, so it can be read.
        quoted.contains(UInt8(ascii: "\\"))
            ? JSONValue.ifValid(quoted)?.string ?? ""
            : String(decoding: quoted.dropFirst().dropLast(), as: UTF8.self)
    }

    private mutating func string() {
        index += 1
        while index < text.count, text[index] != UInt8(ascii: "\"") {
            index += text[index] == UInt8(ascii: "\\") ? 2 : 1
        }
        index += 1
    }

    /// Blanks, line ends, and one punctuation mark among them.
    private mutating func skip(_ mark: Unicode.Scalar? = nil) {
        while index < text.count {
            switch text[index] {
            case 0x0A:
                line += 1
                lineStart = index + 1
            case 0x20, 0x09, 0x0D: break
            case let byte where mark?.value == UInt32(byte): break
            default: return
            }
            index += 1
        }
    }
}
