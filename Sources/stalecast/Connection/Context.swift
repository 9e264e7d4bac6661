import Foundation
package import StalecastWire

/// Facts about a daemon that commands take from a flag, else from a variable, else from a context.
package enum PlaceField: String, CaseIterable, Sendable {
    case control, edge, tokenFile, caFile, data, project, namespace

    /// `STALECAST_TOKEN_FILE` and its like.
    package var variable: String {
        "STALECAST_" + rawValue.replacing(/[A-Z]/) { "_\($0.output)" }.uppercased()
    }

    /// Says which daemon is meant: what a weaker origin says about addresses and tokens is then another daemon's.
    fileprivate var namesDaemon: Bool { self == .control || self == .data }
    fileprivate var isAboutDaemon: Bool { self != .project && self != .namespace }
}

/// The named places of a person, and the one in use: `{"current","contexts":{NAME:{"control",…}}}`. Tokens are named by
/// their files.
package struct ContextFile: Sendable, Equatable {
    package typealias Fields = [PlaceField: String]

    package var current: String?
    package var contexts: [String: Fields] = [:]

    package init() {}

    /// `$XDG_CONFIG_HOME/stalecast/contexts.json`, or below `~/.config`.
    package static func path(_ environment: [String: String]) -> String {
        let given = environment["XDG_CONFIG_HOME"] ?? ""
        // A relative one is to be ignored, says the XDG specification.
        let base = given.hasPrefix("/") ? given : (environment["HOME"] ?? "~") + "/.config"
        return base + "/stalecast/contexts.json"
    }

    /// - Throws: ``CommandFailure`` when it is not what ``json`` makes.
    package init(parsing bytes: some Collection<UInt8>, at path: String) throws(CommandFailure) {
        guard let json = JSONValue.ifValid(Array(bytes)), let members = json["contexts"]?.object else {
            throw CommandFailure(
                .misconfigured, "\(path) is no file of contexts", advice: "Remove it, and add the contexts anew.")
        }
        current = json["current"]?.string
        for (name, fields) in members.members {
            contexts[name] = Fields(
                uniqueKeysWithValues: PlaceField.allCases.compactMap { field in
                    fields[field.rawValue]?.string.map { (field, $0) }
                })
        }
    }

    package var json: JSONValue {
        var all = JSONObject()
        for (name, fields) in contexts.sorted(by: { $0.key < $1.key }) { all[name] = Self.json(fields) }
        return ["current": current.map(JSONValue.string), "contexts": .object(all)]
    }

    private static func json(_ fields: Fields) -> JSONValue {
        var object = JSONObject()
        for field in PlaceField.allCases { object[field.rawValue] = fields[field].map(JSONValue.string) }
        return .object(object)
    }

    /// Contexts as they are stored; empty when there is no file.
    package static func load(_ environment: [String: String]) throws(CommandFailure) -> ContextFile {
        let path = path(environment)
        do {
            return try ContextFile(parsing: try InputFile.contents(of: path), at: path)
        } catch let failure as CommandFailure {
            throw failure
        } catch {
            if error.reason == "no such file" { return ContextFile() }
            throw CommandFailure(.misconfigured, "\(path) cannot be read (\(error.reason))")
        }
    }

    /// Writes it for its owner alone, mode 0600.
    func store(_ environment: [String: String]) throws(CommandFailure) {
        let path = Self.path(environment)
        umask(0o077)
        do {
            try FileManager.default.createDirectory(
                atPath: (path as NSString).deletingLastPathComponent, withIntermediateDirectories: true)
        } catch {
            throw CommandFailure(.refused, "\(path) cannot be written (\(error.reason))")
        }
        try OutputFile.write(json.encoded(.pretty) + [0x0A], to: path)
    }
}

/// Values that count for a command when no flag is given: variables and the context, the stronger first.
package struct Surroundings: Sendable {
    package let environment: [String: String]
    /// The context that was chosen; nil without one.
    package let context: (name: String, fields: ContextFile.Fields)?
    /// Whether `--context` asked for it, so that variables about the daemon do not count.
    private let isAskedFor: Bool

    /// - Parameter arguments: of the command line; `--context NAME` may be among them.
    /// - Throws: ``CommandFailure`` `usage` for a context that is not there.
    package init(
        arguments: [String], environment: [String: String], file: () throws(CommandFailure) -> ContextFile
    ) throws(CommandFailure) {
        self.environment = environment
        // Words behind `--` are no options (POSIX, section 12.2, guideline 10).
        let words = arguments.prefix { $0 != "--" }
        let flag = words.firstIndex(of: "--context").flatMap { $0 + 1 < words.endIndex ? words[$0 + 1] : nil }
        let asked = flag ?? words.last { $0.hasPrefix("--context=") }.map { String($0.dropFirst(10)) }
        isAskedFor = asked != nil
        let stored = try file()
        guard let name = asked ?? Self.text("STALECAST_CONTEXT", environment) ?? stored.current else {
            context = nil
            return
        }
        guard let fields = stored.contexts[name] else {
            throw CommandFailure(
                .usage, "there is no context \"\(name)\"",
                advice: stored.contexts.isEmpty
                    ? "`stalecast context add \(name) --control URL --token-file FILE` makes it."
                    : "There is: \(stored.contexts.keys.sorted().joined(separator: ", ")).")
        }
        context = (name, fields)
    }

    /// Surroundings of this process. Read once, when a command first asks.
    static let current = Result { () throws(CommandFailure) in
        let environment = ProcessInfo.processInfo.environment
        return try Surroundings(arguments: CommandLine.arguments, environment: environment) {
            () throws(CommandFailure) in try ContextFile.load(environment)
        }
    }

    /// Value of a field when no flag is given.
    ///
    /// - Parameter isPlaced: a flag says which daemon is meant, so the context's addresses and token are another's.
    package func value(_ field: PlaceField, isPlaced: Bool = false) -> String? {
        let ofVariable = variable(field)
        if isAskedFor { return fields(isPlaced)?[field] ?? (field.isAboutDaemon ? nil : ofVariable) }
        if let ofVariable { return ofVariable }
        let isElsewhere = isPlaced || PlaceField.allCases.contains { $0.namesDaemon && variable($0) != nil }
        return fields(isElsewhere && field.isAboutDaemon)?[field]
    }

    /// The context's name when it says where the daemon is.
    package func nameOfContext(isPlaced: Bool) -> String? {
        let isElsewhere = PlaceField.allCases.contains { $0.namesDaemon && variable($0) != nil }
        return isPlaced || (isElsewhere && !isAskedFor) ? nil : context?.name
    }

    /// A token in a variable; it beats a context's file.
    package var token: String? {
        isAskedFor ? nil : Self.text("STALECAST_TOKEN", environment)
    }

    /// The token file that the daemon of this environment was given, as in a container; nil where another daemon is
    /// meant.
    package func tokenFileOfDaemon(isPlaced: Bool) -> String? {
        guard !isPlaced, context == nil,
            !PlaceField.allCases.contains(where: { $0 != .data && $0.namesDaemon && variable($0) != nil })
        else { return nil }
        return Self.text("STALECAST_CONTROL_TOKEN_FILE", environment)
    }

    private func fields(_ isElsewhere: Bool) -> ContextFile.Fields? { isElsewhere ? nil : context?.fields }

    private func variable(_ field: PlaceField) -> String? { Self.text(field.variable, environment) }

    /// Value of a variable; nil for an empty one.
    private static func text(_ name: String, _ environment: [String: String]) -> String? {
        environment[name].flatMap { $0.isEmpty ? nil : $0 }
    }
}
