/// A path in which braces stand for whole segments, or for what a segment has before its `:verb`:
/// `/v1/projects/{project}/webhooks/{webhook}:test`.
package struct PathTemplate: Hashable, Sendable, ExpressibleByStringLiteral {
    private enum Segment: Hashable, Sendable {
        case literal(String)
        /// `suffix` is empty or a `:verb`.
        case name(String, suffix: String)
    }

    package let text: String
    private let segments: [Segment]
    /// Bytes of the path that are fixed: of several templates that match, the one with more is meant.
    package let literalBytes: Int

    package init(stringLiteral text: String) {
        precondition(text.hasPrefix("/"), "a path begins with a slash")
        self.text = text
        segments = text.dropFirst().split(separator: "/", omittingEmptySubsequences: false).map(Self.segment)
        literalBytes = segments.reduce(0) { sum, segment in
            switch segment {
            case .literal(let text): sum + text.utf8.count + 1
            case .name(_, let suffix): sum + suffix.utf8.count
            }
        }
    }

    private static func segment(_ text: Substring) -> Segment {
        guard text.first == "{", let end = text.firstIndex(of: "}") else { return .literal(String(text)) }
        let suffix = text[text.index(after: end)...]
        return .name(String(text[text.index(after: text.startIndex)..<end]), suffix: String(suffix))
    }

    var length: Int { segments.count }

    /// The names in braces, in order.
    package var names: [String] {
        segments.compactMap { if case .name(let name, _) = $0 { name } else { nil } }
    }

    /// Values of the names; nil when the path is another. A name never stands for nothing.
    ///
    /// - Parameter path: decoded segments.
    package func match(_ path: [String]) -> [String: String]? {
        guard path.count == segments.count else { return nil }
        for (segment, text) in zip(segments, path) {
            if case .literal(let literal) = segment, text != literal { return nil }
        }
        var values: [String: String] = [:]
        for (segment, text) in zip(segments, path) {
            guard case .name(let name, let suffix) = segment else { continue }
            guard text.hasSuffix(suffix), text.utf8.count > suffix.utf8.count else { return nil }
            values[name] = String(text.dropLast(suffix.count))
        }
        return values
    }
}
