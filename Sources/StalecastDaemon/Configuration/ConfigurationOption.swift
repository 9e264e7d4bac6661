import StalecastWire
import Yams

/// One row of the option table: everything there is to know about one key of the configuration file. Parsing, checking,
/// environment names, reload and the reference text all come from here; the default comes from `Configuration()`.
package struct ConfigurationOption: Sendable {
    /// Key path in the file, `edge.poll.maxWait`.
    package let path: String
    /// One sentence.
    package let meaning: String
    /// Shape, unit and range, `duration, 100ms to 10m`.
    package let form: String
    /// False: SIGHUP applies a change at once. True: the change waits for the next start.
    package let needsRestart: Bool
    /// The flag of `serve` that sets it, such as `--edge`; nil if there is none.
    package let flag: String?

    let reader: Reader
    let spelled: @Sendable (Configuration) -> String
    let isEqual: @Sendable (Configuration, Configuration) -> Bool
    let copy: @Sendable (_ source: Configuration, _ target: inout Configuration) -> Void

    /// The value without any configuration, as it stands in YAML.
    package var defaultText: String { spelled(Configuration()) }

    package var name: String { String(path.split(separator: ".").last ?? "") }

    /// The key path of the mapping it stands in; empty at top level.
    var section: String { path.split(separator: ".").dropLast().joined(separator: ".") }

    /// The environment variable: `STALECAST_`, then the path with `_` for each dot and before each capital that follows
    /// a small letter, all in capitals: `edge.poll.maxWait` is `STALECAST_EDGE_POLL_MAX_WAIT`. Nil for lists of
    /// mappings.
    package var variable: String? {
        if case .entries = reader { return nil }
        return Self.variablePrefix + Self.variableName(path)
    }

    static let variablePrefix = "STALECAST_"

    static func variableName(_ path: String) -> String {
        var name = ""
        var previous: Character = "."
        for character in path {
            if character.isUppercase && previous.isLowercase { name += "_" }
            name += character == "." ? "_" : character.uppercased()
            previous = character
        }
        return name
    }

    /// Whether SIGHUP can apply a change.
    enum Reload { case live, restart }

    /// Way in which the value of an option is read.
    enum Reader: Sendable {
        /// One scalar; variables and flags take the same text.
        case scalar(@Sendable (String, inout Configuration) throws(InvalidValue) -> Void)
        /// A list of scalars; a variable takes them separated by commas.
        case list(@Sendable ([String], inout Configuration) throws(InvalidValue) -> Void)
        /// A list of mappings with these fields; not settable by variables.
        case entries([EntryField], @Sendable (Node, inout ConfigurationReading) -> Void)
    }
}

extension ConfigurationOption {
    /// Keys that are gone, with the key that says today what they said. `false` asked for nothing, and still does.
    static let successors = ["edge.allowPublicBind": "edge.proxied", "control.allowPlaintextBind": "control.proxied"]

    /// Sentence about a removed key; nil for keys that never were.
    static func goneSentence(_ path: String) -> String? {
        successors[path].map {
            "\(path) is gone: a listener outside loopback needs TLS, or \($0): true when a proxy in front speaks TLS"
        }
    }
}

/// A key of the mappings in a list such as `projects`, or several that share their words.
struct EntryField: Sendable {
    /// Names, separated by a comma and a space.
    let name: String
    /// Shape and range, and whether it may be left out.
    let form: String
    let meaning: String
    let isOptional: Bool

    var names: [String] { name.split(separator: ", ").map(String.init) }

    static func required(_ name: String, _ form: String, _ meaning: String) -> EntryField {
        EntryField(name: name, form: form, meaning: meaning, isOptional: false)
    }

    /// A key that may be left out.
    ///
    /// - Parameter absent: value that it has then; empty for none. nil where `form` says it.
    static func optional(
        _ name: String, _ form: String, or absent: String? = "", _ meaning: String
    ) -> EntryField {
        let words = absent.map { "; may be left out" + ($0.isEmpty ? "" : ": \($0)") } ?? ""
        return EntryField(name: name, form: form + words, meaning: meaning, isOptional: true)
    }
}

/// Key path at which the value of an option is kept.
typealias OptionKey<Value> = any WritableKeyPath<Configuration, Value> & Sendable

extension ConfigurationOption {
    /// A row whose value is one scalar.
    init<Value>(
        _ path: String, _ key: OptionKey<Value>, _ kind: OptionKind<Value>,
        _ reload: ConfigurationOption.Reload, flag: String? = nil, _ meaning: String
    ) {
        self.init(path, key, form: kind.form, reload, flag: flag, meaning, spell: kind.spell) {
            .scalar { text, configuration throws(InvalidValue) in configuration[keyPath: key] = try kind.parse(text) }
        }
    }

    /// A row whose value is a list of scalars.
    init<Element>(
        list path: String, _ key: OptionKey<[Element]>, _ kind: OptionKind<Element>,
        _ reload: ConfigurationOption.Reload, _ meaning: String
    ) {
        let spell: @Sendable ([Element]) -> String = { "[" + $0.map(kind.spell).joined(separator: ", ") + "]" }
        self.init(path, key, form: "list of \(kind.form)", reload, flag: nil, meaning, spell: spell) {
            .list { texts, configuration throws(InvalidValue) in
                var elements: [Element] = []
                for text in texts { elements.append(try kind.parse(text)) }
                configuration[keyPath: key] = elements
            }
        }
    }

    /// A row whose value is a list of mappings. Each is read by `read`, which returns nil, with a note, for one that is
    /// refused.
    init<Element: Equatable & Sendable>(
        entries path: String, _ key: OptionKey<[Element]>, _ fields: [EntryField],
        _ reload: ConfigurationOption.Reload, _ meaning: String, spell: @escaping @Sendable (Element) -> String,
        read: @escaping @Sendable (Entry, inout ConfigurationReading) -> Element?
    ) {
        let spellAll: @Sendable ([Element]) -> String = { "[" + $0.map(spell).joined(separator: ", ") + "]" }
        self.init(path, key, form: "list of mappings", reload, flag: nil, meaning, spell: spellAll) {
            .entries(fields) { node, reading in
                var elements: [Element] = []
                for entry in reading.entries(of: node, at: path, fields) {
                    guard let element = read(entry, &reading) else { continue }
                    elements.append(element)
                    reading.entryPaths[path, default: []].append(entry.path)
                }
                reading.configuration[keyPath: key] = elements
            }
        }
    }

    private init<Value: Equatable & Sendable>(
        _ path: String, _ key: OptionKey<Value>, form: String, _ reload: ConfigurationOption.Reload,
        flag: String?, _ meaning: String, spell: @escaping @Sendable (Value) -> String,
        reader: () -> ConfigurationOption.Reader
    ) {
        (self.path, self.meaning, self.form) = (path, meaning, form)
        self.needsRestart = reload == .restart
        self.flag = flag
        self.reader = reader()
        spelled = { spell($0[keyPath: key]) }
        isEqual = { $0[keyPath: key] == $1[keyPath: key] }
        copy = { $1[keyPath: key] = $0[keyPath: key] }
    }
}

/// A mapping of the configuration file that groups options.
package struct ConfigurationSection: Sendable {
    /// Key path, `edge.poll`; empty for the file itself.
    package let path: String
    /// One sentence.
    package let meaning: String

    package var name: String { String(path.split(separator: ".").last ?? "") }

    /// The key path of the mapping it stands in; empty at top level.
    var parent: String { path.split(separator: ".").dropLast().joined(separator: ".") }

    /// Every section, each after the one it stands in.
    package static let all: [ConfigurationSection] = [
        ("edge", "The public listener: streams, long-polls, fetches."),
        ("edge.poll", "How long a long-poll is held."),
        ("edge.tls", "TLS 1.2 and 1.3 on Edge. Certificate files are read anew when they change and at SIGHUP."),
        ("control", "The private listener: template API, status, metrics."),
        ("control.tls", "TLS 1.3 on Control; without a certificate Edge's counts if Control listens outside loopback."),
        ("auth", "Who may do what."),
        (
            "auth.hook",
            "Your backend says who asks at Edge: a GET with some headers of the request, for a second at most."
        ),
        ("clients", "Clients that say who they are, counted by what they have."),
        ("store", "What the store keeps."),
        ("store.etcd", "An etcd that several daemons share: it has the order of versions, each has a copy."),
        ("cluster", "This daemon among those that share store.etcd."),
        ("audit", "Who changed what, in <data>/audit.jsonl."),
        ("sources", "Where scopes get their versions from, and what that may cost."),
        ("webhooks", "Registered URLs and how they are sent to."),
        ("log", "What is logged, and how."),
        ("shutdown", "How the daemon ends."),
    ].map { ConfigurationSection(path: $0, meaning: $1) }
}
