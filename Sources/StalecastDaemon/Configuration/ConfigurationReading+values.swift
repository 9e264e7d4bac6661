import StalecastTemplate
import Yams

extension ConfigurationReading {
    /// The scalar `node` as text, whether quoted or not; nil, with a note, if it is none.
    mutating func text(of node: Node, at path: String, expected: String) -> String? {
        if let scalar = node.scalar, !node.isNothing { return scalar.string }
        noteWrongShape(of: node, at: path, expected: expected)
        return nil
    }

    /// The value of one field of an entry; nil, with a note, if it is refused.
    ///
    /// - Parameter absent: of a field that is not there.
    mutating func value<Value>(
        _ name: String, of entry: Entry, or absent: Value? = nil, parse: (String) throws -> Value
    ) -> Value? {
        guard let node = entry.fields[name] else { return absent }
        return value(node, at: "\(entry.path).\(name)", parse: parse)
    }

    /// The list in one field of an entry, likewise; see ``uniqueValues(_:at:mayBeEmpty:parse:)``.
    mutating func values<Value: Hashable>(
        _ name: String, of entry: Entry, or absent: [Value]? = nil, parse: (String) throws -> Value
    ) -> [Value]? {
        guard let node = entry.fields[name] else { return absent }
        return uniqueValues(node, at: "\(entry.path).\(name)", parse: parse)
    }

    private mutating func value<Value>(_ node: Node, at path: String, parse: (String) throws -> Value) -> Value? {
        place(path, at: origin(of: node))
        guard let text = text(of: node, at: path, expected: "one value") else { return nil }
        return attempt(at: path) { try parse(text) }
    }

    /// The values of a list without duplicates; nil, with a note for each problem, if any is refused.
    mutating func uniqueValues<Value: Hashable>(
        _ node: Node, at path: String, mayBeEmpty: Bool = false, parse: (String) throws -> Value
    ) -> [Value]? {
        let elements = entries(of: node, at: path)
        var values: [Value] = []
        var seen: Set<Value> = []
        for (elementPath, element) in elements {
            guard let value = value(element, at: elementPath, parse: parse) else { continue }
            if !seen.insert(value).inserted { note("\(elementPath): \(value) is there already", at: elementPath) }
            values.append(value)
        }
        if entriesAreEmpty(node) && !mayBeEmpty { note("\(path) must not be empty", at: path) }
        return seen.count == elements.count && node.sequence != nil ? values : nil
    }

    /// The elements of a list with their key paths; none, with a note, if it is no list.
    mutating func entries(of node: Node, at path: String) -> [(path: String, node: Node)] {
        if origins[path] == nil { place(path, at: origin(of: node)) }
        guard let sequence = node.sequence else {
            noteWrongShape(of: node, at: path, expected: "a list")
            return []
        }
        let elements = sequence.enumerated().map { ("\(path)[\($0)]", $1) }
        for (elementPath, element) in elements { place(elementPath, at: origin(of: element)) }
        return elements
    }

    /// The names and values of a mapping such as `headers`; nil, with a note, if it is none.
    mutating func namesAndValues(_ node: Node, at path: String) -> [(name: String, value: String)]? {
        place(path, at: origin(of: node))
        guard let mapping = node.mapping else {
            note("\(path) must be a mapping of names and values, not \(node.shape)", at: path)
            return nil
        }
        var pairs: [(name: String, value: String)] = []
        for (key, value) in mapping {
            guard let name = keyName(key) else { continue }
            guard let text = text(of: value, at: "\(path).\(name)", expected: "one value") else { return nil }
            pairs.append((name, text))
        }
        return pairs
    }

    /// True for a list without elements.
    func entriesAreEmpty(_ node: Node) -> Bool { node.sequence?.isEmpty ?? false }

    /// The mappings of a list; none, with a note, for what is no list or mapping.
    mutating func entries(of node: Node, at path: String, _ fields: [EntryField]) -> [Entry] {
        entries(of: node, at: path).compactMap { entry($1, at: $0, fields) }
    }

    /// The fields of an entry by name; nil, with a note, if it is no mapping. Unknown fields and missing ones are
    /// noted, and do not keep the others from being read.
    private mutating func entry(_ entry: Node, at path: String, _ rows: [EntryField]) -> Entry? {
        let known = rows.flatMap(\.names)
        let required = rows.filter { !$0.isOptional }.flatMap(\.names)
        guard let mapping = entry.mapping else {
            let words = required.isEmpty ? "" : " with " + required.joined(separator: " and ")
            note("\(path) must be a mapping\(words), not \(entry.shape)", at: path)
            return nil
        }
        var fields: [String: Node] = [:]
        for (key, value) in mapping {
            guard let name = keyName(key) else { continue }
            fields[name] = value
            guard !known.contains(name) else { continue }
            place("\(path).\(name)", at: origin(of: key))
            let nearest = nearestName(to: name, of: known)
            note("unknown key \(path).\(name)\(hint(at: nearest.map { "\(path).\($0)" }))", at: "\(path).\(name)")
        }
        for name in required where fields[name] == nil { note("\(path) has no \(name)", at: path) }
        return Entry(path: path, fields: fields)
    }

    private mutating func noteWrongShape(of node: Node, at path: String, expected: String) {
        let wrong = "must be \(expected), not \(node.shape)"
        note("\(path) \(node.isNothing ? "has no value; give it one or remove the key" : wrong)", at: path)
    }
}

/// A mapping in a list such as `projects`.
struct Entry {
    let path: String
    let fields: [String: Node]
}

extension Node {
    /// True for a value that is left out: nothing, `~` or `null`, unquoted.
    var isNothing: Bool {
        guard let scalar, scalar.style == .plain || scalar.style == .any else { return false }
        return ["", "~", "null", "Null", "NULL"].contains(scalar.string)
    }

    /// Kind of the value, for people.
    var shape: String {
        switch self {
        case .scalar: isNothing ? "nothing" : "a single value"
        case .mapping: "a mapping"
        case .sequence: "a list"
        case .alias: "an alias"
        }
    }
}
