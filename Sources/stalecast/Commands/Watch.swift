import ArgumentParser
import StalecastWire

struct Watch: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watch",
        abstract: "Print the messages of topics as they arrive.",
        discussion: """
            One line per message on standard output; remarks about the connection on standard error. After a lost \
            connection it resumes where it was. With --json each message's data is printed as it came, one per line.

            The command of --exec runs in a shell, one after the other, with the message's data on its standard input and \
            what it says in STALE_VERSION, STALE_TOPIC, STALE_PROJECT, STALE_NAMESPACE, STALE_UPDATE_TYPE and \
            STALE_CHANGED_KEYS (with commas; empty where anything may have changed).

            Examples:
              stalecast watch
              stalecast watch PUSH_RC payments
              stalecast watch --namespace firebase-server
              stalecast watch --json --count 1 --timeout 30s && ./refetch.sh
              stalecast watch --keys 'pay_*' --exec './refetch.sh "$STALE_VERSION"'
              stalecast watch --poll
              stalecast watch --api-key-file app.key
              stalecast watch --have 16  # a message at once if there is a newer one
            """)

    @Argument(
        help: "Topics to subscribe to (default: PUSH_RC, of firebase-server PUSH_RC_SERVER).", completion: .topics)
    var topics: [String] = []

    @Flag(help: "Use long-poll instead of a stream.")
    var poll = false

    @Option(help: "Stop after this many messages, with exit code 0.")
    var count: Int?

    @Option(help: .value("time", "Stop after this time: with exit code 7 when --count was not reached, else 0."))
    var timeout: Span?

    @Option(help: .value("cursor", "Resume after this cursor, the `id` of an earlier message."))
    var since: String?

    @Option(help: .value("number", "The version you hold."))
    var have: Int64?

    @Option(
        help: .value(
            "pattern", "Only messages about parameters that fit this, for example 'pay_*', or about any; repeatable."))
    var keys: [String] = []

    @Option(help: .value("command", "Run this for each message; what it ends with is told when it is not 0."))
    var exec: String?

    @OptionGroup var scopeOptions: ScopeOptions
    @OptionGroup var connection: EdgeOptions

    func validate() throws {
        if let count, count < 1 { throw ValidationError("--count is 1 or more") }
        if let timeout, timeout.duration <= .zero { throw ValidationError("--timeout is more than 0 seconds") }
        if let have, have < 0 { throw ValidationError("--have is 0 or more") }
    }

    func run() async throws {
        guard let timeout = timeout?.duration else { return try await watch() }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await watch() }
            group.addTask {
                try await Task.sleep(for: timeout)
                guard let count else { return }
                throw CommandFailure(
                    .timedOut, "\((timeout / .seconds(1)).shortest) s are over and --count \(count) was not reached")
            }
            defer { group.cancelAll() }
            try await group.next()
        }
    }

    private func watch() async throws {
        let given = try topics.map { try checked(try TopicName($0)) }
        let scope = try scopeOptions.scope()
        let request = Watcher.Request(
            topics: given.isEmpty ? [scope.announcedTopic] : given, scope: scope, cursor: since, have: have)
        let filter = MessageFilter(try keys.map { try checked(try KeyPattern($0)) })
        let (output, line) = (connection.output, Watcher.Line(palette: connection.output.palette))
        var (hasGreeted, printed) = (false, 0)
        var watcher = Watcher(request, polls: poll, address: connection.addressWithKey) { event in
            if case .synced(let cursor) = event, !hasGreeted {
                hasGreeted = true
                let greeting = await greeting(request)
                return output.remark(output.palette.dim("\(greeting); up to date, cursor \(cursor.printable)"))
            }
            guard case .message(let data, _) = event else {
                if let remark = line.remark(event) { output.remark(remark) }
                return
            }
            guard filter.wants(data) else { return }
            if output.isJSON { try output.jsonText(data) } else { try output.line(line.message(data, at: .now())) }
            if let code = try await exec.map(MessageCommand.init)?.run(data), code != 0 {
                output.remark("the command ended with \(code)")
            }
            printed += 1
            if printed == count { throw Enough() }
        }
        do { try await watcher.run() } catch is Enough {}
    }

    /// The message that `--count` asked for last has been printed.
    private struct Enough: Error {}
}

extension Watch {
    /// `connected to http://127.0.0.1:8080: PUSH_RC, demo/firebase version 4`; without what `/v1/state` does not tell.
    fileprivate func greeting(_ subscription: Watcher.Request) async -> String {
        // The stream stands: a state that cannot be read is no reason to say anything.
        guard let address = try? connection.addressWithKey() else { return "connected" }
        let names = subscription.topics.map(\.description).joined(separator: ", ")
        let start = "connected to \(address.url): \(names)"
        guard let request = try? address.request("/v1/state", subscription.query),  // no state: the next event tells it
            // Unreachable: no state either.
            let answer = try? await HTTPAnswer.of(request, patience: .seconds(5)), answer.status == 200,
            let state = JSONValue.ifValid(answer.body)
        else { return start }
        return ([start] + state.scopesWithVersions).joined(separator: ", ")
    }
}

extension JSONValue {
    /// `demo/firebase version 4` of every object in it that names a scope and a version, each once.
    fileprivate var scopesWithVersions: [String] {
        var found: [String] = []
        func visit(_ value: JSONValue) {
            if let project = value["project"]?.string, let namespace = value["namespace"]?.string,
                let version = (value["versionNumber"] ?? value["latestTemplateVersionNumber"] ?? value["version"])?
                    .int64, version > 0
            {
                let text = "\(project)/\(namespace) version \(version)".printable
                if !found.contains(text) { found.append(text) }
            }
            for inner in value.array ?? value.object?.members.map(\.value) ?? [] { visit(inner) }
        }
        visit(self)
        return found
    }
}

extension Double {
    /// Digits without `.0`.
    fileprivate var shortest: String { self == rounded() && self < 1e15 ? String(Int64(self)) : String(self) }
}
