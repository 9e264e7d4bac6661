import ArgumentParser
import StalecastWire

struct Send: AsyncParsableCommand, ControlOptions {
    static let configuration = CommandConfiguration(
        commandName: "send",
        abstract: "Send data to the subscribers of a topic, as FCM's messages:send does.",
        usage: """
            stalecast send [<options>] <topic> <key>=<value> ...
            stalecast send [<options>] --condition <expression> <key>=<value> ...
            """,
        discussion: """
            Connected clients get exactly this data now; nothing is replayed. `stalecast messages` lists who sent what \
            to whom.

            Examples:
              stalecast send PUSH_RC CONFIG_STATE=STALE
              stalecast send --condition "'news' in topics || 'beta' in topics" A=1
            """)

    @Option(help: .value("expression", "Send to a condition over topics instead of one topic."))
    var condition: String?

    @Argument(help: .value("words", "The topic, then the data as KEY=VALUE."), completion: .topics)
    var words: [String]

    @OptionGroup var project: ProjectOptions

    @OptionGroup var connection: ConnectionOptions

    func validate() throws {
        let pairs = condition == nil ? words.dropFirst() : words[...]
        if condition == nil, words.first?.contains("=") ?? true { throw ValidationError("the first word is the topic") }
        if pairs.isEmpty { throw ValidationError("the data is missing: give at least one KEY=VALUE") }
        guard let wrong = pairs.first(where: { !$0.contains("=") || $0.hasPrefix("=") }) else { return }
        throw ValidationError("\"\(wrong)\" is not KEY=VALUE")
    }

    func run() async throws {
        let projectID = try project.id()
        let message = try message()
        let path = "/v1/projects/\(projectID)/messages:send"
        let client = try client()
        let answer = try await client.send("POST", path, body: ["message": message], changes: true).json()
        if output.isJSON { return try output.json(answer) }
        try output.line("sent \(answer.word("name", "").printable)")
        if condition == nil { await report(projectID, client) }
    }

    /// Says how many subscribers the topic has. A key that may publish need not be able to read: then it says nothing.
    private func report(_ project: ProjectID, _ client: ControlClient) async {
        guard let answer = try? await client.send("GET", "/v1/projects/\(project)/topics").json() else { return }
        let topics = answer.items("topics").filter { $0.word("name") == words[0] }
        if topics.isEmpty {
            return output.remark(
                "no topic of project \(project) is called \(words[0].printable), so no client heard it; `stalecast topics` lists "
                    + "them")
        }
        // A topic that is bound to several namespaces has the same subscribers in each.
        let counts = topics.map { ($0["subscribers"]?.object?.members ?? []).reduce(0) { $0 + ($1.value.int64 ?? 0) } }
        let count = counts.max() ?? 0
        output.remark(
            "\(words[0].printable) has \(PublishCounts.grouped(count)) subscriber\(count == 1 ? "" : "s") now"
                + (count == 0 ? ", and later ones do not get it" : ""))
    }

    private func message() throws(CommandFailure) -> JSONValue {
        var data = JSONObject()
        for pair in condition == nil ? words.dropFirst() : words[...] {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            data[String(parts[0])] = .string(String(parts[1]))
        }
        if let condition { return ["condition": .string(condition), "data": .object(data)] }
        let topic = try checked(try TopicName(words[0]))
        return ["topic": .string(topic.description), "data": .object(data)]
    }
}

/// A name from the command line; one that breaks its rule is wrong use.
func checked<Name>(_ make: @autoclosure () throws(InvalidName) -> Name) throws(CommandFailure) -> Name {
    do {
        return try make()
    } catch {
        throw CommandFailure(.usage, error.description)
    }
}
