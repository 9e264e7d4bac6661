/// FCM's condition over topics, for example `'a' in topics && ('b' in topics || !('c' in topics))`. Parentheses bind
/// first; beyond them `&&` and `||` have no precedence and are taken from left to right. At most ``maxTopics`` topics.
package struct TopicCondition: Sendable, Hashable, CustomStringConvertible {
    /// The condition as it was given.
    package let description: String
    /// The topics it names, each once, in order of appearance.
    package let topics: [TopicName]
    private let root: Node

    /// FCM's limit for the topics in one condition, repetitions counted.
    package static let maxTopics = 5
    /// Longer texts, in bytes, are refused unread: five names of 255 characters and their operators fit.
    package static let maxBytes = 4096

    fileprivate indirect enum Node: Sendable, Hashable {
        case topic(TopicName)
        case not(Node)
        case and(Node, Node)
        case or(Node, Node)
    }

    /// - Throws: ``ExpressionError`` for anything that is not such a condition, with the place.
    package init(parsing text: String) throws(ExpressionError) {
        var parser = TopicCondition.Parser(text)
        root = try parser.condition()
        description = text
        var seen: Set<TopicName> = []
        topics = parser.topics.filter { seen.insert($0).inserted }
    }

    /// Whether the condition is true for a client that is subscribed to exactly the topics `isSubscribed` says.
    package func holds(for isSubscribed: (TopicName) -> Bool) -> Bool { Self.holds(root, isSubscribed) }

    private static func holds(_ node: Node, _ isSubscribed: (TopicName) -> Bool) -> Bool {
        switch node {
        case .topic(let name): isSubscribed(name)
        case .not(let inner): !holds(inner, isSubscribed)
        case .and(let left, let right): holds(left, isSubscribed) && holds(right, isSubscribed)
        case .or(let left, let right): holds(left, isSubscribed) || holds(right, isSubscribed)
        }
    }
}

extension TopicCondition {
    /// Recursive descent over bytes; only parentheses recurse, to at most `maxDepth`.
    fileprivate struct Parser {
        private let bytes: [UInt8]
        private var index = 0
        private var depth = 0
        private(set) var topics: [TopicName] = []

        private static let maxDepth = 32

        init(_ text: String) { bytes = Array(text.utf8) }

        mutating func condition() throws(ExpressionError) -> TopicCondition.Node {
            guard bytes.count <= TopicCondition.maxBytes else {
                let limit = TopicCondition.maxBytes
                throw error("a condition has at most \(limit) bytes")
            }
            let node = try chain()
            if index < bytes.count { throw error("'&&', '||' or the end is expected") }
            return node
        }

        private mutating func chain() throws(ExpressionError) -> TopicCondition.Node {
            var node = try term()
            while true {
                if skip("&&") {
                    node = .and(node, try term())
                } else if skip("||") {
                    node = .or(node, try term())
                } else {
                    return node
                }
            }
        }

        private mutating func term() throws(ExpressionError) -> TopicCondition.Node {
            var isNegated = false
            while skip("!") { isNegated.toggle() }
            let node = skip("(") ? try group() : try membership()
            return isNegated ? .not(node) : node
        }

        private mutating func group() throws(ExpressionError) -> TopicCondition.Node {
            depth += 1
            if depth > Self.maxDepth {
                throw error("parentheses are nested deeper than \(Self.maxDepth)", at: index - 1)
            }
            let node = try chain()
            guard skip(")") else { throw error("')' is expected") }
            depth -= 1
            return node
        }

        private mutating func membership() throws(ExpressionError) -> TopicCondition.Node {
            let name = try quotedName()
            skipBlanks()
            let start = index
            guard skipWord("in"), skipWord("topics") else {
                throw error("'in topics' is expected after a topic's name", at: start)
            }
            return .topic(name)
        }

        private mutating func quotedName() throws(ExpressionError) -> TopicName {
            skipBlanks()
            let start = index
            guard start < bytes.count, bytes[start] == UInt8(ascii: "'") || bytes[start] == UInt8(ascii: "\"") else {
                throw error("a topic's name in quotes is expected")
            }
            guard let end = bytes[(start + 1)...].firstIndex(of: bytes[start]) else {
                throw error("the quotes opened here are not closed", at: start)
            }
            index = end + 1
            if topics.count == TopicCondition.maxTopics {
                throw error("a condition names at most \(TopicCondition.maxTopics) topics", at: start)
            }
            do {
                topics.append(try TopicName(String(decoding: bytes[start + 1..<end], as: UTF8.self)))
            } catch {
                throw self.error(error.description, at: start)
            }
            return topics[topics.count - 1]
        }

        private mutating func skip(_ symbol: StaticString) -> Bool {
            skipBlanks()
            let symbol = UnsafeBufferPointer(start: symbol.utf8Start, count: symbol.utf8CodeUnitCount)
            guard bytes[index...].starts(with: symbol) else { return false }
            index += symbol.count
            return true
        }

        private mutating func skipWord(_ word: StaticString) -> Bool {
            let start = index
            guard skip(word) else { return false }
            // `inside` begins with `in` and is another word.
            if index < bytes.count, bytes[index].isASCIIAlphanumeric || bytes[index] == UInt8(ascii: "_") {
                index = start
                return false
            }
            return true
        }

        private mutating func skipBlanks() {
            while index < bytes.count, [0x20, 0x09, 0x0A, 0x0D].contains(bytes[index]) { index += 1 }
        }

        private func error(_ reason: String, at offset: Int? = nil) -> ExpressionError {
            ExpressionError(byte: offset ?? index, in: bytes, reason: reason)
        }
    }
}
