import ArgumentParser
import StalecastTemplate
import StalecastWire

struct Publish: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "publish",
        abstract: "Publish a template from a file or a folder; subscribers hear of it at once.",
        discussion: """
            The file is JSON, or YAML where its name ends with .yaml. All files of a folder are one template: each has some of \
            the parameters, groups and conditions. It is checked here and by the server, and published unless another \
            version was published since the current one was read (exit code 5). A terminal shows the changes and asks, \
            unless --yes. A template that differs in nothing is not published, unless --force; without a terminal one \
            that lacks parameters of the current version only with --allow-removals.

            The answer says who has heard of it: streams whose socket has taken the message, and how long that took; \
            long-polls answered; webhooks that are still owed it. --wait waits until they have it.

            With --stages only a share of the clients is told and gets the new version, then a larger one; --wait \
            follows it to its end: exit code 0 when all clients have it, 9 when it was paused or rolled back. While \
            such a release is open nothing else is published over it (exit code 5), except with --supersede or \
            --instant.

            Examples:
              stalecast publish samples/templates/demo.json
              stalecast publish winter.yaml --wait
              stalecast apply config/  # one file for each group of parameters
              stalecast publish winter.json --wait 95% --timeout 5s --on-timeout warn
              stalecast publish winter.json --description 'winter campaign'
              stalecast publish winter.json --validate-only
              stalecast publish winter.json --stages 1%,10%,100% --every 5m --wait
              stalecast publish winter.json --if-match '*'  # over any current version
              stalecast publish winter.json --propose  # for another person to approve
              stalecast publish winter.json --at 2h  # a proposal that publishes itself
              stalecast get | jq … | stalecast publish -
            """, aliases: ["apply"])

    @Argument(help: "The template, or a folder of its parts; - reads standard input.", completion: .file())
    var file: String

    @Option(
        help: .value(
            "etag",
            "Publish only over this version: its ETag, or * for any (default: the version current when the command starts)."
        ))
    var ifMatch: String?

    @Flag(
        name: [.long, .customLong("dry-run")],
        help: "Check here and on the server, show what would change, and whom each stage would reach; publish nothing.")
    var validateOnly = false

    @Flag(help: "Ask clients to fetch at once, whatever the herd window of the scope.")
    var urgent = false

    @Flag(help: "Publish also where parameters of the current version are missing.")
    var allowRemovals = false

    @OptionGroup var staging: StagingOptions
    @OptionGroup var proposing: VersionOptions
    @OptionGroup var wait: WaitOptions
    @OptionGroup var options: PublishingOptions

    func validate() throws {
        try proposing.judge(wait)
        try staging.judge(wait, proposing)
        guard let ifMatch, !ifMatch.isEmpty, ifMatch.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return }
        throw ValidationError(
            "--if-match takes an ETag, not a version number: `stalecast get --version-number \(ifMatch)` tells it, "
                + "for example etag-123456789012-\(ifMatch)")
    }

    func run() async throws {
        let api = try options.api()
        let source = try TemplateFile(file)
        let template = try source.template(for: api.scope.namespace)
        let before = try await api.get()
        let request = source.request(description: proposing.description)
        let etag = try overwritten(before)
        let checked = try await api.put(request, ifMatch: etag, validateOnly: true, release: staging.query)
        var publishing = Publishing(
            api: api, before: before, content: template, options: options, allowsRemovals: allowRemovals,
            isMute: file == "-", wait: wait)
        publishing.audience = await api.audience(of: staging)
        publishing.isStaged = checked.isStaged
        if validateOnly {
            return try publishing.report(checked, isCheck: true).write(to: options.output)
        }
        if proposing.isAsked {
            return try await publishing.propose(request, ifMatch: etag, isUrgent: urgent, at: proposing.at?.time)
        }
        let manner = checked.isStaged ? ", in stages" + (staging.stages.map { " of \($0.printable)" } ?? "") : ""
        try await publishing.run({ "Publish to \($0)\(manner)?" }) { () async throws(CommandFailure) in
            try await api.put(request, ifMatch: etag, validateOnly: false, isUrgent: urgent, release: staging.query)
        }
    }
}

extension Publish {
    /// ETag of the version to publish over.
    ///
    /// - Throws: ``CommandFailure`` where `--if-match` names another version than the current one.
    private func overwritten(_ current: ServedTemplate) throws(CommandFailure) -> String {
        guard let ifMatch else { return current.etag }
        guard !["*", current.etag, ""].contains(String(ETagSpelling.bare(ifMatch))) else { return ifMatch }
        throw CommandFailure(
            .versionMismatch,
            "--if-match asks for \(ifMatch.printable), and version \(current.version) is current, \(current.etag)",
            advice:
                "`stalecast diff current \(file.printable)` shows what you would change in it. Give its ETag to publish "
                + "over it, or leave --if-match out.")
    }
}

struct Rollback: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rollback",
        abstract: "Publish the content of an older version as a new version.",
        discussion: """
            The version number goes up, also on a rollback: rolling version 5 back to 3 makes version 6. Without a number \
            it goes back to the version before the current one; where that is a rollback itself, to the one before what \
            it went back to. A terminal shows what would change and asks; scripts \
            give a number or --yes. Nothing is rolled back if another version comes meanwhile (exit code 5). A version \
            whose content is what is current already is not published again, unless --force.

            Examples:
              stalecast rollback
              stalecast rollback 3
              stalecast rollback 3 --wait 99% --timeout 5s
              stalecast rollback 3 --json
            """)

    @Argument(
        help: "The version to go back to; see `stalecast versions` (default: the one before the current one).",
        completion: .versionNumbers)
    var version: Int64?

    @OptionGroup var wait: WaitOptions
    @OptionGroup var options: PublishingOptions

    func validate() throws {
        if let version, version < 1 { throw ValidationError("a version number is 1 or more") }
    }

    func run() async throws {
        let api = try options.api()
        let before = try await api.get()
        let version = if let version { version } else { try await previous(before, api) }
        let content = try await api.get(version).template()
        let publishing = Publishing(
            api: api, before: before, content: content, options: options, allowsRemovals: true, wait: wait)
        try await publishing.run({ "Roll back \($0) to version \(version)?" }) { () async throws(CommandFailure) in
            try await api.rollback(to: version, ifMatch: before.etag)
        }
    }

    /// The version before the current one, where a person sees which that is or has agreed to it.
    private func previous(_ current: ServedTemplate, _ api: TemplateAPI) async throws(CommandFailure) -> Int64 {
        // The version before a rollback is the one that was bad.
        let source = current.json["version"]?["rollbackSource"]?.int64
        var last = source ?? current.version
        var page = try await api.versions(from: last, limit: 2).items
        // What a rollback went back to may be a rollback as well; the version to leave is where the content came from.
        while let further = page.first(where: { $0["versionNumber"]?.int64 == last })?["rollbackSource"]?.int64 {
            last = further
            page = try await api.versions(from: last, limit: 2).items
        }
        let earlier = page.compactMap { $0["versionNumber"]?.int64 }.first { $0 < last }
        guard let version = earlier else {
            throw CommandFailure(
                .notFound,
                "there is no version before version \(last)"
                    + (source == nil ? "" : ", which version \(current.version) went back to"),
                advice: source == nil ? nil : "`stalecast versions` shows what there is; give a number.")
        }
        guard Question.canBeAsked || options.agreement.yes else {
            throw CommandFailure(
                .usage, "the version before is \(version), and there is no terminal to ask at",
                advice: "Give the number, `stalecast rollback \(version)`, or --yes.")
        }
        let output = options.output
        if source != nil, !output.isJSON {
            output.remark(
                "version \(current.version) has the content of version \(last): the one before that is \(version)")
        }
        return version
    }
}
