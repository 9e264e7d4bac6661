package import StalecastWire

/// A webhook as Control shows it, as a page for people or as JSON. The secret, when there is one to show, comes last.
package struct WebhookReport {
    private let webhook: JSONValue
    private let secretPath: String?
    private let isSecretKnown: Bool

    /// - Parameters:
    ///   - secretPath: a file of ``SecretFile`` that the secret goes into, instead of onto the screen.
    ///   - isSecretKnown: it came from the owner's own file and is not shown.
    package init(_ webhook: JSONValue, savedTo secretPath: String? = nil, isSecretKnown: Bool = false) {
        (self.webhook, self.secretPath, self.isSecretKnown) = (webhook, secretPath, isSecretKnown)
    }

    /// - Parameter act: what happened, `registered`; nil shows the webhook only.
    func write(_ act: String? = nil, _ output: Output) throws(CommandFailure) {
        if let secretPath, let secret { try SecretFile.fill(secretPath, secret) }
        if output.isJSON { return try output.json(shown) }
        if let act { try output.line("\(act) \(output.palette.green(webhook.word("id").printable))") }
        try output.lines(lines(output.palette))
        if let secretPath {
            output.remark("the secret is in \(secretPath)")
        } else if let secret, !isSecretKnown {
            try output.line(painted("secret", output.palette.yellow(secret.printable)))
            output.remark("the secret is not shown again; `stalecast webhooks rotate-secret` makes another")
        }
    }

    private var secret: String? { webhook["signing"]?["secret"]?.string }

    /// JSON without the secret when it went into a file.
    private var shown: JSONValue {
        guard secretPath != nil || isSecretKnown, var object = webhook.object, var signing = object["signing"]?.object
        else {
            return webhook
        }
        signing["secret"] = nil
        object["signing"] = .object(signing)
        return .object(object)
    }

    package func lines(_ palette: Palette) -> [String] {
        var lines = [
            field("id", webhook.word("id")), field("url", webhook.word("url")),
            painted("state", WebhookStateText(webhook["state"]).text(palette)),
        ]
        if let name = webhook["configuredAs"]?.string { lines.append(field("configured", "as \(name)")) }
        lines.append(field("topics", webhook.words("topics").joined(separator: ", ")))
        lines.append(field("format", "\(webhook.word("format")), mode \(webhook.word("mode"))"))
        lines += optional("limits", limits) + optional("headers", headers) + optional("tls", members("tls"))
        lines += optional("fcm", members("fcm")) + optional("consent", consent) + optional("signing", signing)
        lines += optional("about", webhook["description"]?.string)
        lines += optional("failed", lastFailure) + optional("next try", nextTry)
        lines.append(field("changed", clockTime(webhook.word("updateTime"))))
        return lines + scopes(palette)
    }

    private var limits: String? {
        var parts: [String] = []
        if case .number(let rate)? = webhook["limits"]?["maxPerSecond"] { parts.append("\(rate) per second") }
        if let timeout = webhook["limits"]?["timeout"]?.string { parts.append("timeout \(timeout)") }
        if let pause = webhook["limits"]?["minInterval"]?.string, pause != "0s" {
            parts.append("every \(pause) at most")
        }
        return parts.isEmpty ? nil : parts.joined(separator: ", ")
    }

    private var headers: String? {
        webhook["headers"]?.object?.members.map { "\($0.key): \($0.value.string ?? "")" }.joined(separator: ", ")
    }

    private func members(_ name: String) -> String? {
        webhook[name]?.object?.members.map { "\($0.key) \($0.value.string ?? $0.value.text())" }
            .joined(separator: ", ")
    }

    private var nextTry: String? {
        guard let delivery = webhook["delivery"], let time = delivery["nextAttemptTime"]?.string else { return nil }
        let failures = delivery["consecutiveFailures"]?.int64 ?? 0
        return "\(clockTime(time)), failures in a row: \(failures)"
    }

    private var lastFailure: String? {
        guard let failure = webhook["delivery"]?["lastFailure"], let time = failure["time"]?.string else { return nil }
        return "\(clockTime(time)), \(WebhookAttemptText(failure).outcome)"
    }

    private var consent: String? {
        guard let method = webhook["verification"]?["method"]?.string, method != "none" else { return nil }
        let time = webhook["verification"]?["verifyTime"]?.string
        return "\(method), \(time.map { "given \(clockTime($0))" } ?? "not given yet")"
    }

    private var signing: String? {
        guard let signing = webhook["signing"] else { return nil }
        let keys = signing.items("keys")
        let old = keys.compactMap { $0["expireTime"]?.string }.map { "an older key until \(clockTime($0))" }
        let publicKey = signing["publicKey"]?.string.map { ["public key \($0)"] } ?? []
        return ([signing.word("algorithm")] + publicKey + old).joined(separator: ", ")
    }

    private func scopes(_ palette: Palette) -> [String] {
        let scopes = webhook["delivery"]?.items("scopes") ?? []
        if scopes.isEmpty { return [] }
        let table = TextTable(
            [
                .left("NAMESPACE") { $0.word("namespace") }, .right("CURRENT") { version($0["currentVersion"]) },
                .right("ACKNOWLEDGED") { version($0["acknowledgedVersion"]) },
                .right("LAG") { String(Self.owed($0, by: webhook)) },
            ], of: scopes)
        return [""] + table.lines(palette)
    }

    /// Messages that a webhook is owed in a namespace. In mode latest, which skips versions, that is one at most.
    static func owed(_ scope: JSONValue, by webhook: JSONValue) -> Int64 {
        let lag = scope["lag"]?.int64 ?? 0
        return webhook["mode"]?.string == "latest" ? min(lag, 1) : lag
    }

    private func version(_ value: JSONValue?) -> String {
        guard let text = value?.string, text != "0" else { return "none" }
        return text
    }

    private func optional(_ name: String, _ text: String?) -> [String] { text.map { [field(name, $0)] } ?? [] }

    private func field(_ name: String, _ text: String) -> String { painted(name, text.printable) }

    /// - Parameter text: with colours, and printable otherwise.
    private func painted(_ name: String, _ text: String) -> String {
        name + String(repeating: " ", count: 12 - name.count) + text
    }
}

/// `{"name","since","reason"}` in words and colour.
struct WebhookStateText {
    private let state: JSONValue?

    init(_ state: JSONValue?) { self.state = state }

    func text(_ palette: Palette) -> String {
        let text = plain.printable
        return switch state?["name"]?.string {
        case "active": palette.green(text)
        case "failing", "disabled": palette.red(text)
        default: palette.yellow(text)
        }
    }

    /// `disabled (gone) since 2026-11-21 10:00:00`.
    var plain: String {
        var text = state?["name"]?.string ?? "?"
        if let reason = state?["reason"]?.string { text += " (\(reason))" }
        if let since = state?["since"]?.string { text += " since \(clockTime(since))" }
        return text
    }
}
