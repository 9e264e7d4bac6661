package import StalecastWire

/// A line of the audit log in words: who did what to which scope, and whether it was refused.
package struct AuditSentence {
    /// Ending of a reason when the requests were served nevertheless, in mode `observe`.
    package static let observedOnly = ", observed only"

    private let line: JSONObject

    package init(_ line: JSONObject) { self.line = line }

    /// `demo/firebase`, or the project alone; nil for what concerns the whole daemon.
    package var scope: String? {
        guard let project = text("project") else { return nil }
        return namespace.map { "\(project)/\($0)" } ?? project
    }

    /// Firebase's paths name no namespace where it is `firebase`; other lines without one concern the whole project.
    private var namespace: String? {
        let action = text("action") ?? ""
        return text("namespace") ?? (action.hasSuffix("Template") || action.hasSuffix("Release") ? "firebase" : nil)
    }

    /// Whether it concerns a scope. Changes of a whole project and of the daemon concern all of its scopes.
    package func concerns(_ scope: Scope) -> Bool {
        concerns(project: scope.project.description, namespace: scope.namespace.description)
    }

    /// - Parameter namespace: nil is any of the project.
    func concerns(project name: String, namespace wanted: String?) -> Bool {
        guard let project = text("project") else { return true }
        return project == name && (wanted == nil || namespace ?? wanted == wanted)
    }

    package var isRefused: Bool { isTally ? !isObserved : text("outcome") ?? "ok" != "ok" }

    /// Whether the line is a count of refused requests, which came from unknown callers.
    private var isTally: Bool { text("action") == "refused" }

    private var isObserved: Bool { text("reason")?.hasSuffix(Self.observedOnly) ?? false }

    package var time: Timestamp? { text("time").flatMap { Timestamp($0) } }

    /// The person, and the credential where it says more: `ann (control token)`, `key:4fT0aZ81Qx`; `stalecast` for what
    /// the daemon does by itself.
    package var actor: String {
        let actor = text("actor") ?? "stalecast"
        let holder = actor == "bootstrap" ? "control token" : actor
        guard let user = text("user"), user != holder else { return holder }
        return "\(user) (\(holder))"
    }

    /// `demo/firebase: published version 3 (max_items, title)`, `demo: refused (403): create webhook`.
    package var sentence: String {
        let what = scope.map { "\($0): " } ?? ""
        let reason = text("reason").map { ": \($0)" } ?? ""
        let refusal = isRefused ? "\(text("outcome") ?? "refused")\(text("status").map { " (\($0))" } ?? ""): " : ""
        return what + refusal + deed + keys + reason
    }

    private func text(_ member: String) -> String? { line[member].flatMap { $0.isNull ? nil : $0.string ?? $0.text() } }

    private var deed: String {
        let version = text("version") ?? "?"
        switch text("action") ?? "" {
        case "console.signIn": return "signed in to the console"
        case "refused":
            let count = text("count") ?? "?"
            return count == "1" ? "1 request" : "\(count) requests"
        case "source.adopt": return "took version \(version) from its source"
        case "daemon.start": return "the daemon started, version \(version)"
        case "publishTemplate" where !isRefused:
            return "published version \(version)" + (text("release") == "staged" ? " in stages" : "")
        case "rollbackTemplate" where !isRefused:
            return "rolled back to version \(text("rollbackSource") ?? "?"), as version \(version)"
        case let action: return words(action) + (subject.map { " \($0)" } ?? "")
        }
    }

    /// `createWebhook` is `created webhook`, `config.reload` is `reloaded config`.
    private func words(_ action: String) -> String {
        var words: [String] = [""]
        for character in action.unicodeScalars {
            if character == "." || ("A"..."Z").contains(character) { words.append("") }
            if character != "." { words[words.count - 1] += String(character).lowercased() }
        }
        if action.utf8.contains(UInt8(ascii: ".")) { words.reverse() }
        words.removeAll(where: \.isEmpty)
        guard let verb = words.first else { return "did something without a name" }
        if isRefused { return words.joined(separator: " ") }
        words[0] = Self.past(verb)
        return words.joined(separator: " ")
    }

    private static func past(_ verb: String) -> String {
        if let irregular = irregular[verb] { return irregular }
        if verb.hasSuffix("y") { return "\(verb.dropLast())ied" }
        return verb.hasSuffix("e") ? verb + "d" : verb + "ed"
    }

    private static let irregular = [
        "send": "sent", "set": "set", "stop": "stopped", "put": "put", "begin": "began", "redrive": "redrove",
    ]

    /// Its id, where the line has one.
    private var subject: String? {
        ["webhook", "key", "proposal", "release", "topic", "messageId", "backup"].lazy.compactMap { text($0) }.first
    }

    /// Names of the keys that changed, the first few.
    private var keys: String {
        guard let keys = line["changedKeys"]?.array?.compactMap(\.string), !keys.isEmpty else { return "" }
        let shown = keys.prefix(5).joined(separator: ", ")
        return " (\(shown)\(keys.count > 5 ? " and \(keys.count - 5) more" : ""))"
    }
}
