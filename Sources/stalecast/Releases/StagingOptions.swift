import ArgumentParser
package import StalecastWire

/// Options of `publish` for releasing a version: to all clients at once, or in stages.
struct StagingOptions: ParsableArguments {
    /// Whether a stage ends in which too few clients were seen to judge. Raw values are what is typed.
    enum OnTooLittle: String, ExpressibleByArgument, CaseIterable { case go, hold }

    enum Anonymous: String, ExpressibleByArgument, CaseIterable { case last, address }

    @Option(
        help: .value(
            "shares", "Release in stages: ascending shares of the clients, the last one 100%; see `stalecast release`.")
    )
    var stages: String?

    @Option(help: .value("time", "How long each stage lasts; 0 waits for an operator (default: 5m)."))
    var every: Span?

    @Option(help: .value("time", "How long the last stage is watched; it can still be taken back (default: 10m)."))
    var bake: Span?

    @Option(help: .value("ids", "Clients of the first stage, whatever their share: ids, with commas."))
    var first: String?

    @Option(help: "When clients that say no id are told: with the last stage, or by their addresses (default: last).")
    var anonymous: Anonymous?

    @Option(help: "What ends a stage that reached too few clients to judge: go on, or hold for an operator.")
    var onTooLittle: OnTooLittle?

    @Option(
        help: .value("json", "Limits on signals that stop it, as JSON, for example '{\"loss\":{\"margin\":\"1%\"}}'."))
    var gates: String?

    @Flag(help: "Take the place of a release that is open.")
    var supersede = false

    @Flag(help: "Release to all clients at once, also over a release that is open.")
    var instant = false

    @Option(help: .value("text", "Why, for the audit log and the log of a release that it ends."))
    var reason: String?

    func validate() throws {
        if stages == nil, !query.names.allSatisfy(["release", "supersede", "reason"].contains) {
            throw ValidationError("--every, --bake, --first, --anonymous, --gates and --on-too-little are for --stages")
        }
        if instant, stages != nil { throw ValidationError("--instant and --stages contradict each other") }
    }

    /// - Throws: `ValidationError` where a proposal, or a wait for something else, is asked for too.
    func judge(_ wait: WaitOptions, _ proposing: VersionOptions) throws {
        if proposing.isAsked, !query.names.isEmpty {
            throw ValidationError("a proposal is released when it is approved, to all clients at once")
        }
        if stages != nil, wait.isAboutClients {
            throw ValidationError(
                "with --stages, --wait waits for the end of the release: leave out its share, --stage and --min-clients"
            )
        }
    }

    var query: RequestQuery {
        let manner: String? = stages != nil ? "staged" : instant ? "instant" : nil
        return [
            "release": manner, "stages": stages?.filter { $0 != " " },
            "every": every?.inMilliseconds, "bake": bake?.inMilliseconds, "first": first,
            "anonymous": anonymous?.rawValue, "onTooLittle": onTooLittle?.rawValue, "gates": gates,
            "supersede": supersede ? "true" : nil, "reason": reason,
        ]
    }
}

/// Numbers of the clients connected now that each stage would reach.
package struct StageAudience {
    /// Stages in percent, ascending.
    private let stages: [Double]
    private let clients: Int64
    private let unnamed: Int64
    /// Clients without an id go by their addresses; else they are told with the last stage.
    private let splitsAddresses: Bool

    /// - Parameters:
    ///   - stages: as typed; the server has judged them.
    ///   - audience: as `GET remoteConfig/audience` says it.
    package init(stages: String, audience: JSONValue, splitsAddresses: Bool = false) {
        func count(_ name: String) -> Int64 { min(max(audience[name]?.int64 ?? 0, 0), 1 << 40) }
        self.stages = stages.split(separator: ",").compactMap { word in
            Double(word.filter { $0 != " " && $0 != "%" })
        }.filter((0...100).contains)
        unnamed = count("unidentifiedStreams")
        self.splitsAddresses = splitsAddresses
        // In a cluster the daemon knows the streams of all nodes, and the clients of its own.
        let known = audience["unidentifiedStreams"] == nil ? max(count("clients"), count("streams")) : count("clients")
        clients = max(known + unnamed, count("polls"))
    }

    /// `[{"percent","clients"}]`.
    var json: JSONValue {
        .array(stages.map { ["percent": .double($0), "clients": .int(reached($0))] })
    }

    private func reached(_ percent: Double) -> Int64 {
        let all = percent < 100 && !splitsAddresses ? clients - unnamed : clients
        return Int64((Double(all) * percent / 100).rounded())
    }

    /// A line for each stage, and one about clients without an id.
    package var lines: [String] {
        guard clients > 0 else { return ["no client is connected now who would hear of it"] }
        let noun = clients == 1 ? "client" : "clients"
        let rows = stages.enumerated().map { index, percent in
            let head = ReleaseReading.column(.double(percent))
            let count =
                percent < 100 ? "about \(PublishCounts.grouped(reached(percent)))" : PublishCounts.grouped(clients)
            return head + count + (index == 0 ? " of \(PublishCounts.grouped(clients)) \(noun) connected now" : "")
        }
        guard unnamed > 0 else { return rows }
        return rows + [
            "\(PublishCounts.grouped(unnamed)) of them \(unnamed == 1 ? "says" : "say") no id: "
                + (splitsAddresses ? "their addresses decide, one stage for each address" : "told with the last stage")
        ]
    }
}

extension TemplateAPI {
    /// Numbers of clients that the stages would reach; nil when the daemon cannot say, or there are none: no reason to
    /// fail.
    func audience(of staging: StagingOptions) async -> StageAudience? {
        guard let stages = staging.stages,
            let audience = try? await read("/audience")  // an older daemon has none
        else { return nil }
        return StageAudience(stages: stages, audience: audience, splitsAddresses: staging.anonymous == .address)
    }
}
