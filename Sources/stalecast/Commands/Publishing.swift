import ArgumentParser
import StalecastTemplate
package import StalecastWire

struct PublishingOptions: ParsableArguments, ScopedControlOptions {
    @OptionGroup var agreement: YesOption

    @Flag(help: "Publish also when nothing differs; every client fetches again.")
    var force = false

    @OptionGroup var scoped: ScopedOptions
}

/// Options of a command that publishes a template, or proposes it instead.
struct VersionOptions: ParsableArguments {
    @Option(help: "What the new version is about, at most 1024 characters.")
    var description: String?

    @Flag(help: "Keep it as a proposal for another person to approve; see `stalecast proposals`.")
    var propose = false

    @Option(
        help: .value(
            "time",
            "Keep it as a proposal that publishes itself then: 2026-12-01T09:00:00Z, or how long until then, such as 2h."
        ))
    var at: FutureTime?

    /// Whether nothing is published now.
    var isAsked: Bool { propose || at != nil }

    /// - Throws: `ValidationError` where both are asked for.
    func judge(_ wait: WaitOptions) throws {
        if isAsked, wait.share != nil { throw ValidationError("a proposal publishes nothing to wait for") }
    }
}

/// Publishes a change of the current template: shows it, asks, publishes over exactly that version, and reports.
struct Publishing {
    let api: TemplateAPI
    let before: ServedTemplate
    /// Template that shall be current.
    let content: Template
    let options: PublishingOptions
    /// Parameters may disappear without a flag of their own: the command says that they do.
    var allowsRemovals = false
    /// Standard input is the template and cannot answer.
    var isMute = false
    /// nil does not wait.
    var wait: WaitOptions?
    /// The version is released in stages: the wait is for the end of the release, whatever --stage says.
    var isStaged = false
    /// Clients that each stage would reach; nil where there are none, or the daemon cannot say.
    var audience: StageAudience?

    private var output: Output { options.output }

    /// Asks where a person can be asked, publishes with `send`, and reports.
    ///
    /// - Parameter question: of a place, for example `Publish to demo/firebase at http://…?`.
    /// - Throws: ``CommandFailure`` when it is refused or not wanted; nothing was published then.
    func run(
        _ question: (String) -> String = { "Publish to \($0)?" },
        _ send: () async throws(CommandFailure) -> ServedTemplate
    ) async throws(CommandFailure) {
        guard let isAsked = try agree(question) else { return try await stay() }
        // A wait that can never end is refused while nothing is published.
        try await judgeStage()
        let sent = try await send()
        var report = try self.report(sent)
        report.reach = await api.reach()
        // Published it is, whether this can be read or not.
        if sent.isStaged { report.release = try? await api.release() }
        report.wasShown = isAsked
        try await finish(sent.version, report, isStaged: sent.isStaged)
    }

    /// Says that nothing differs. With --wait it waits for the version that is there: an earlier try published it.
    private func stay() async throws(CommandFailure) {
        var isStaged = false
        // An older daemon knows no releases.
        if wait?.share != nil, let release = try? await api.release() {
            isStaged = release.isOpen && release.version == before.version
        }
        try await finish(before.version, try report(nil), isStaged: isStaged)
    }

    /// Reports a version that is current, and waits for it where that is asked for.
    private func finish(_ version: Int64, _ report: PublishReport, isStaged: Bool) async throws(CommandFailure) {
        guard let wait, wait.share != nil else { return try report.write(to: output) }
        // Text reports the publish before the wait; JSON is one document, printed with the outcome of the wait.
        if !output.isJSON { try report.write(to: output) }
        if isStaged { return try await follow(version, report, wait) }
        try await conclude(version, report, wait)
    }

    /// - Throws: ``CommandFailure`` where the stage to wait for cannot be counted; nothing is published then.
    private func judgeStage() async throws(CommandFailure) {
        guard let wait, let stage = wait.stage, wait.isOfClients, !isStaged,
            let audience = try? await api.read("/audience"),  // an older daemon refuses after the publish
            let (streams, anonymous) = PublishCounts.anonymous(audience), anonymous * 2 > streams
        else { return }
        throw CommandFailure(
            .refused,
            "\(PublishCounts.grouped(anonymous)) of \(PublishCounts.grouped(streams)) streams at this daemon do not say "
                + "whose they are, so \(stage.rawValue) cannot be counted; nothing was published",
            advice: "Wait for --stage sent, or let clients send client= with their streams.")
    }

    /// Waits for a version and reports how that ended. The JSON is printed even if the wait fails.
    ///
    /// - Parameter report: without an answer of the server where this command did not publish the version.
    private func conclude(
        _ version: Int64, _ report: PublishReport, _ wait: WaitOptions
    ) async throws(CommandFailure) {
        var report = report
        var failure: CommandFailure?
        do throws(CommandFailure) {
            report.wait = WaitOutcome(
                done: try await PropagationWait(api: api, options: wait, output: output).run(version))
            if report.wait?.failure?.status == .timedOut, wait.onTimeout == .rollback {
                report.wait?.ending = report.after == nil ? .isNotOurs : try await takeBack(version)
            }
            failure = report.wait?.failure
        } catch {
            let prefix =
                report.wait == nil ? "version \(version) is published, and the wait for it failed: " : ""
            failure = CommandFailure(
                error.status, prefix + error.sentence, problems: error.problems, advice: error.advice)
        }
        if output.isJSON { try report.write(to: output) }
        try wait.conclude(report.wait?.sentence ?? "", failure, output)
    }

    /// Proposes the change after the question; then it waits for another person's approval, or for its time.
    func propose(
        _ request: JSONValue, ifMatch etag: String, isUrgent: Bool = false, at time: Timestamp? = nil
    ) async throws(CommandFailure) {
        let when = time.map { ", to be published at \(LocalClock.asked.date($0))" } ?? ""
        guard let isAsked = try agree({ "Propose it to \($0)\(when)?" }, proposes: true) else {
            var report = try report(nil)
            report.proposes = true
            return try report.write(to: output)
        }
        let proposal = try await api.propose(request, ifMatch: etag, isUrgent: isUrgent, at: time)
        if output.isJSON {
            return try output.json(["scope": .string(api.scope.description), "published": false, "proposal": proposal])
        }
        let number = proposal.word("number")
        try output.line(
            "proposed as \(output.palette.green(number)), over version \(proposal.word("baseVersion")) of \(api.scope); "
                + (time == nil
                    ? "another person publishes it with `stalecast proposals approve \(number)`"
                    : "it publishes itself at \(clockTime(proposal.word("publishTime", ""))); `stalecast proposals reject "
                        + "\(number)` cancels it"))
        if !isAsked { try output.lines(try report(nil).difference(output.palette)) }
    }

    /// Shows what changes and asks, where a person can be asked.
    ///
    /// - Returns: whether a person was asked; nil when nothing is to be done.
    private func agree(_ question: (String) -> String, proposes: Bool = false) throws(CommandFailure) -> Bool? {
        var report = try report(nil)
        report.proposes = proposes
        // The first version may be empty: until then there is none to be equal to.
        if report.changes.isEmpty, before.version > 0, !options.force { return nil }
        let isAsked = !isMute && options.agreement.asks(output)
        let removed = report.changes.removed
        if isAsked {
            let lines = report.preview(output.palette) + (audience.map { [""] + $0.lines } ?? [])
            output.remark(lines.joined(separator: "\n"))
            try ask(question, removed)
        } else if !removed.isEmpty, !allowsRemovals {
            throw CommandFailure(
                .refused, removalSentence(removed) + "; nothing was \(proposes ? "proposed" : "published")",
                problems: removed,
                advice: "--allow-removals \(proposes ? "proposes" : "publishes") it. `stalecast diff current FILE` "
                    + "shows everything that differs.")
        }
        return isAsked
    }

    /// Waits for the end of a release in stages.
    ///
    /// - Parameter report: without an answer of the server where this command did not publish the version.
    private func follow(_ version: Int64, _ report: PublishReport, _ wait: WaitOptions) async throws(CommandFailure) {
        if wait.isAboutClients, !output.isJSON {
            output.remark("stalecast: the scope is released in stages by default: waiting for the end of the release")
        }
        let timeout = wait.timeout?.duration
        var outcome = try await ReleaseWait(api: api, output: output, timeout: timeout).run(version)
        if outcome.failure?.status == .timedOut, wait.onTimeout == .rollback {
            if report.after == nil {
                outcome.ending =
                    "It was not taken back: this command did not publish it. `stalecast release rollback` takes it back."
            } else {
                let back = try await api.changeRelease("rollback", reason: "not released in time")
                outcome.ending = "It was taken back: \(back.sentence())."
            }
        }
        if output.isJSON {
            var report = report
            report.release = outcome.reading
            try report.write(to: output)
        }
        try wait.conclude(outcome.sentence, outcome.failure, output)
    }

    /// Publishes the content of before again, unless something newer than `version` is current.
    private func takeBack(_ version: Int64) async throws(CommandFailure) -> WaitOutcome.Ending {
        if before.version == 0 { return .isFirst }
        let current = try await api.get()
        guard current.version == version else { return .isNotNewest }
        let back: ServedTemplate
        do throws(CommandFailure) {
            back = try await api.rollback(to: before.version, ifMatch: current.etag)
        } catch {
            guard error.status == .versionMismatch else { throw error }
            return .isNotNewest
        }
        output.remark("rolled back to the content of version \(before.version): version \(back.version)")
        return .rolledBack(source: before.version, version: back.version)
    }

    /// - Parameter after: the server's answer; nil when there is none yet.
    func report(_ after: ServedTemplate?, isCheck: Bool = false) throws(CommandFailure) -> PublishReport {
        var report = try PublishReport(
            scope: api.scope, before: before, after: after, content: content, isCheck: isCheck)
        report.audience = audience
        return report
    }

    private func ask(_ question: (String) -> String, _ removed: [String]) throws(CommandFailure) {
        if !removed.isEmpty {
            let names = removed.prefix(10).map(\.printable).joined(separator: ", ") + (removed.count > 10 ? ", …" : "")
            output.remark(output.palette.red("\(removalSentence(removed)): \(names)"))
        }
        let place = "\(api.scope) \(options.connection.place(of: api.client))"
        try Question(question(place)).agree()
    }

    private func removalSentence(_ removed: [String]) -> String {
        // What is current was parsed before.
        let count = (try? before.template().allParameters.count) ?? removed.count
        return "this removes \(removed.count) of \(count) parameters"
    }
}

/// Counts of the clients that had a version's message when Control was asked, right after the publish.
package struct PublishCounts {
    let json: JSONValue

    package init(json: JSONValue) { self.json = json }

    private func number(_ member: String, _ inner: String) -> Int64 { json[member]?[inner]?.int64 ?? 0 }

    /// `told 1,204 of 1,204 streams in 31 ms; 3 webhooks on their way`.
    package var sentence: String {
        let (streams, sent) = (number("streams", "audience"), number("streams", "sent"))
        let (polls, owed) = (number("polls", "answered"), number("webhooks", "owed"))
        // In a cluster the other nodes report within a second or two.
        let isPart = json["counted"]?.bool == false
        var parts: [String] = []
        if streams > 0 || polls > 0 {
            var told = ["\(Self.grouped(sent)) of \(Self.grouped(streams)) stream\(streams == 1 ? "" : "s")"]
            if polls > 0 { told.append("\(Self.grouped(polls)) long-poll\(polls == 1 ? "" : "s")") }
            let time = json["milliseconds"].flatMap { Double($0.text()) }.map { " in \(Self.spelled($0)) ms" } ?? ""
            parts.append("told " + told.joined(separator: " and ") + (isPart ? " on this node" : "") + time)
        } else {
            parts.append("no client is connected \(isPart ? "to this node " : "")that would hear of it")
        }
        if isPart { parts.append("`stalecast propagation` shows all nodes") }
        if sent < streams { parts.append("\(Self.grouped(streams - sent)) read too slowly and get it when they can") }
        if owed > 0 { parts.append(owed == 1 ? "1 webhook on its way" : "\(Self.grouped(owed)) webhooks on their way") }
        return parts.joined(separator: "; ")
    }

    /// Streams of the daemon that was asked, and how many of them do not say whose they are, at least, from
    /// `GET remoteConfig/audience`. nil for 0.2.0, whose nodes count the named clients of other nodes as streams without
    /// an id.
    package static func anonymous(_ audience: JSONValue) -> (streams: Int64, anonymous: Int64)? {
        guard let node = audience["thisNode"], let streams = node["streams"]?.int64,
            let anonymous = node["unidentifiedStreams"]?.int64
        else { return nil }
        return (max(0, streams), min(max(0, anonymous), 1 << 40))
    }

    /// `1,204`.
    static func grouped(_ number: Int64) -> String {
        let digits = Array(String(number.magnitude))
        let parts = stride(from: digits.count, to: 0, by: -3).map { String(digits[max(0, $0 - 3)..<$0]) }
        return (number < 0 ? "-" : "") + parts.reversed().joined(separator: ",")
    }

    private static func spelled(_ milliseconds: Double) -> String {
        milliseconds < 10 ? "\((milliseconds * 10).rounded() / 10)" : grouped(Int64(milliseconds.rounded()))
    }
}
