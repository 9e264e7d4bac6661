import StalecastWire

/// The state of one attempt to load: the values so far, where each was written, and what was wrong. Sources are read in
/// ascending order of precedence; a problem never stops the reading.
struct ConfigurationReading {
    var configuration = Configuration()
    /// Scopes that topics name, with the key path that names them; checked when all projects are known.
    var mentionedScopes: [(path: String, scope: Scope)] = []
    /// Topics that receivers name, and the receivers' projects; checked when all topics are known.
    var mentionedTopics: [(path: String, project: ProjectID, topics: [TopicName])] = []
    /// Paths of the entries that were not refused, in their order, by the list's path.
    var entryPaths: [String: [String]] = [:]
    /// Entries and fields that have a value of which there may be one only, by the list and the value.
    private var claimed: [[String]: (path: String, field: String)] = [:]
    private(set) var problems: [ConfigurationProblem]
    /// Origins of values by key path: `edge.listen`, `topics[0].scopes[1]`.
    private(set) var origins: [String: ConfigurationProblem.Origin] = [:]
    /// Options whose newest value was refused; checks across options leave them out.
    private(set) var refused: Set<String> = []
    /// The name of the file in problems.
    let file: String
    /// Keys already reported as set twice.
    let skippedKeys: Set<String>

    /// Reads `document`; `file` is its name in problems.
    init(document: ConfigurationDocument, file: String) {
        self.file = file
        problems = document.problems
        skippedKeys = document.renamedKeys
        guard let root = document.root else { return }
        readSection("", root)
    }

    /// Reads the value of a variable or flag.
    mutating func read(_ option: ConfigurationOption, _ text: String, from origin: ConfigurationProblem.Origin) {
        origins[option.path] = origin
        refused.remove(option.path)
        switch option.reader {
        case .scalar(let read): set(option) { try read(text, &$0) }
        case .list(let read):
            let texts = text.split(separator: ",").map { $0.trimming(while: \.isWhitespace) }.filter { !$0.isEmpty }
            set(option) { try read(texts, &$0) }
        case .entries: note("\(option.path) can only be set in the file", at: option.path)
        }
    }

    /// Notes a problem where the value of `path` was written.
    mutating func note(_ sentence: String, at path: String) {
        note(sentence, from: origins[path] ?? .file(file, line: nil))
        refused.insert(String(path.prefix { $0 != "[" }))
    }

    /// Notes a problem that belongs to no value.
    mutating func note(_ sentence: String, from origin: ConfigurationProblem.Origin) {
        problems.append(ConfigurationProblem(origin: origin, sentence: sentence))
    }

    /// Remembers where the value of `path` stands.
    mutating func place(_ path: String, at origin: ConfigurationProblem.Origin) {
        origins[path] = origin
    }

    /// Notes that another entry of the list has this value already.
    ///
    /// - Parameters:
    ///   - group: entries that the value is unique among; empty for the whole list.
    ///   - advice: end of the sentence.
    /// - Returns: whether it is the first.
    @discardableResult mutating func claim(
        _ value: String, _ field: String, of entry: Entry, among group: String = "", _ advice: String = ""
    ) -> Bool {
        let place = [String(entry.path.prefix { $0 != "[" }), group, value]
        guard let first = claimed[place] else {
            claimed[place] = (entry.path, field)
            return true
        }
        let other = first.field == field ? first.path : "\(first.path).\(first.field)"
        note("\(entry.path).\(field): \(value) is already \(other)\(advice)", at: "\(entry.path).\(field)")
        return false
    }

    /// Sets the value of `option` by `read`, or notes why it was refused.
    mutating func set(_ option: ConfigurationOption, _ read: (inout Configuration) throws -> Void) {
        var changed = configuration
        if attempt(at: option.path, { try read(&changed) }) != nil { configuration = changed }
    }

    /// Result of `read`; nil, with a note, when it refuses the value of `path`.
    mutating func attempt<Value>(at path: String, _ read: () throws -> Value) -> Value? {
        do { return try read() } catch {
            note("\(path): \(error)", at: path)
            return nil
        }
    }
}
