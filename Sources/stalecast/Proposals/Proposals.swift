import ArgumentParser
import StalecastWire

struct Proposals: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "proposals",
        abstract: "List, read, approve and reject what was proposed with publish --propose.",
        discussion: """
            A proposal becomes a version when a person approves it, and only over the version it was made over: when \
            another one was published meanwhile it has to be proposed anew (exit code 5). Where the project's \
            configuration says approvals: required, that person is another principal than its author; all who use the \
            control token are one and the same. An open one ends by itself after 30 days.

            Examples:
              stalecast publish --propose winter.json --description 'winter'
              stalecast proposals list
              stalecast proposals show 7
              stalecast proposals approve 7 --token-file bob.key
              stalecast proposals reject 7 --reason 'after the holidays'
            """,
        subcommands: [ProposalsList.self, ProposalsShow.self, ProposalsApprove.self, ProposalsReject.self])
}

struct ProposalTarget: ParsableArguments {
    @Argument(help: .value("number", "The proposal, as `stalecast proposals list` shows it."), completion: .proposals)
    var number: Int64

    func validate() throws {
        if number < 1 { throw ValidationError("a proposal's number is 1 or more") }
    }
}

struct ProposalsList: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the open proposals, newest first.",
        discussion: """
            A stale one was made over a version that is not the newest any more, and cannot be approved.

            Examples:
              stalecast proposals list
              stalecast proposals list --all
              stalecast proposals list --json | jq -r '.proposals[].number'
            """)

    @Flag(help: "Also those that were approved or rejected, or have expired.")
    var all = false

    @OptionGroup var options: ScopedOptions

    func run() async throws {
        let found = try await options.api().proposals(isOpen: !all)
        try options.output.list(
            "proposals", found,
            ifNone: "no \(all ? "" : "open ")proposals; `stalecast publish --propose FILE` makes one",
            .right("NUMBER") { $0.word("number") }, .whole("STATE", ProposalReport.state),
            .right("BASE") { $0.word("baseVersion") }, .right("AGE") { age($0.word("createTime", "")) },
            .left("AUTHOR") { ProposalReport.name($0["author"]) },
            .extra("PUBLISHES") { $0["publishTime"]?.string.map { clockTime($0) } ?? "" },
            .extra("CHANGES") { $0.words("changedKeys").joined(separator: ",") },
            .extra("DESCRIPTION") { $0.word("description", "") })
    }
}

struct ProposalsShow: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Show a proposal and what it changes.",
        discussion: """
            The template of an open one is in the JSON.

            Examples:
              stalecast proposals show 7
              stalecast proposals show 7 --json | jq .template > winter.json
            """)

    @OptionGroup var target: ProposalTarget
    @OptionGroup var options: ScopedOptions

    func run() async throws {
        let api = try options.api()
        let report = try await ProposalReport(try await api.proposal(target.number), api)
        try options.output.show(report.json, report.lines(options.output.palette))
    }
}

struct ProposalsApprove: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "approve", abstract: "Publish a proposal as its author's version.",
        discussion: """
            A terminal shows what changes and asks, unless --yes. The version says who proposed it; proposal and audit \
            log say who approved it.

            Examples:
              stalecast proposals approve 7
              stalecast proposals approve 7 --token-file bob.key --yes
              stalecast proposals approve 7 --wait 95% --timeout 1m
            """)

    @OptionGroup var target: ProposalTarget

    @OptionGroup var agreement: YesOption
    @OptionGroup var wait: WaitOptions
    @OptionGroup var options: ScopedOptions

    func validate() throws {
        if wait.onTimeout == .rollback {
            throw ValidationError("approve takes nothing back: --on-timeout fail or warn, then `stalecast rollback`")
        }
    }

    func run() async throws {
        let api = try options.api()
        let output = options.output
        if agreement.asks(output) {
            let report = try await ProposalReport(try await api.proposal(target.number), api)
            output.remark(report.lines(output.palette).joined(separator: "\n") + "\n")
            try Question("Publish it to \(api.scope) \(options.connection.place(of: api.client))?").agree()
        }
        let proposal = try await api.decide(target.number, "approve")
        let reach = await api.reach()
        let version = proposal["decision"]?["versionNumber"]?.int64
        if !output.isJSON {
            try output.line(
                "approved proposal \(target.number) of \(ProposalReport.name(proposal["author"])): published "
                    + "\(output.palette.green("version \(version.map(String.init) ?? "?")")) of \(api.scope)")
            if let reach { try output.line(reach.sentence) }
        }
        var outcome: WaitOutcome?
        if wait.share != nil, let version {
            outcome = WaitOutcome(done: try await PropagationWait(api: api, options: wait, output: output).run(version))
        }
        if output.isJSON {
            var object = proposal.object ?? [:]
            object["told"] = reach?.json
            object["wait"] = outcome?.done
            try output.json(.object(object))
        }
        if let outcome { try wait.conclude(outcome.sentence, outcome.failure, output) }
    }
}

struct ProposalsReject: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reject", abstract: "End a proposal; its author may, too.",
        discussion: """
            Example:
              stalecast proposals reject 7 --reason 'after the holidays'
            """)

    @OptionGroup var target: ProposalTarget

    @Option(help: .value("text", "Why, at most 1024 characters."))
    var reason = ""

    @OptionGroup var options: ScopedOptions

    func run() async throws {
        let proposal = try await options.api().decide(
            target.number, "reject", reason.isEmpty ? [:] : ["reason": .string(reason)])
        let sentence = "rejected proposal \(target.number) of \(ProposalReport.name(proposal["author"]))"
        try options.output.show(proposal, [sentence])
    }
}
