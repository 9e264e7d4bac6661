import StalecastOutbound
import StalecastSources
import StalecastTemplate
package import StalecastWire

/// Tries the configured sources once, each by itself, without a daemon and without a store: what an operator wants to
/// know before the daemon is started.
package struct SourceCheck: Sendable {
    private let feeds: [Configuration.Feed]
    private let factory: SourceFactory

    package struct Finding: Sendable {
        package let scope: Scope
        package let kind: String
        package let place: String
        /// False: the daemon would have nothing to serve from it.
        package let isUsable: Bool
        /// Whole sentences without a full stop; the first says how it went.
        package let sentences: [String]
        package let json: JSONValue

        fileprivate init(
            _ feed: Configuration.Feed, place: String, isUsable: Bool, _ sentences: [String], _ facts: JSONObject
        ) {
            (scope, kind, self.place, self.isUsable) = (feed.scope, feed.kind.rawValue, place, isUsable)
            self.sentences = sentences
            var object: JSONObject = [
                "scope": .string(scope.description), "kind": .string(kind), "place": .string(place),
                "ok": .bool(isUsable),
            ]
            for (name, value) in facts.members { object[name] = value }
            json = .object(object)
        }
    }

    /// - Throws: ``StartError`` when there is nothing to try things with.
    package init(_ configuration: Configuration) throws(StartError) {
        feeds = configuration.sources.scopes.filter(\.isFed)
        factory = try SourceFactory(configuration)
    }

    /// All at a time, in the order configured. Takes as long as the slowest.
    package func run() async -> [Finding] {
        let findings = await withTaskGroup(of: (Int, Finding).self) { group in
            for (index, feed) in feeds.enumerated() { group.addTask { (index, await self.finding(feed)) } }
            var findings: [Int: Finding] = [:]
            for await (index, finding) in group { findings[index] = finding }
            return findings
        }
        await factory.engine?.shutdown(grace: .zero)
        return feeds.indices.compactMap { findings[$0] }
    }

    private func finding(_ feed: Configuration.Feed) async -> Finding {
        let made: SourceFactory.Made
        do {
            made = try factory.make(feed)
            var credentials = TriggerCredentials()
            _ = try credentials.read(feed)
        } catch {
            return Self.finding(feed, place: feed.path ?? feed.url ?? "", problem: ("misconfigured", error.description))
        }
        let began = ContinuousClock.now
        let poll = await made.source.poll()
        let took = ContinuousClock.now - began
        switch poll {
        case .unchanged:
            // The first look of a source says this only when there is nothing to see.
            return Self.finding(
                feed, place: made.source.place, problem: ("nothing", "the origin answers, and has no version yet"))
        case .failed(let problem):
            return Self.finding(
                feed, place: made.source.place, problem: (problem.reason.rawValue, problem.description))
        case .seen(let sight): return await finding(made, sight, took)
        }
    }

    private static func finding(
        _ feed: Configuration.Feed, place: String, problem: (reason: String, sentence: String)
    ) -> Finding {
        Finding(
            feed, place: place, isUsable: false, [problem.sentence],
            ["error": ["reason": .string(problem.reason), "message": .string(problem.sentence)]])
    }

    private func finding(_ made: SourceFactory.Made, _ sight: OriginPoll.Sight, _ took: Duration) async -> Finding {
        let template = sight.content.template
        let version = made.feed.hasOriginNumbers ? sight.content.version : nil
        var facts: JSONObject = [
            "seconds": .double(took / .seconds(1)), "parameters": .int(template.allParameters.count),
            "conditions": .int(template.conditions.count), "versionNumber": version.map { .string(String($0)) },
            "etag": sight.etag.map(JSONValue.string),
        ]
        var sentences = [
            "a template, parameters: \(template.allParameters.count), conditions: \(template.conditions.count); "
                + "read in \(Int((took / .milliseconds(1)).rounded())) ms"
        ]
        sentences.append(
            version.map { "version \($0) by the origin's count" }
                ?? "the origin's versions have no numbers that are used; they are counted here")
        if let fence = made.fence {
            let (sentence, json) = await Self.check(fence, sight)
            sentences.append(sentence)
            facts["fence"] = json
        }
        if sight.etag == nil, made.feed.kind == .http {
            sentences.append("the origin sends no ETag: every look reads the whole document")
        }
        return Finding(made.feed, place: made.source.place, isUsable: true, sentences, facts)
    }

    private static func check(_ fence: Fence, _ sight: OriginPoll.Sight) async -> (String, JSONValue) {
        let goal = Fence.Goal(version: sight.content.version, etag: sight.etag, content: sight.content)
        switch await fence.wait(for: goal) {
        case .passed(let wait):
            return (
                "the fence sees it after \(Int((wait / .milliseconds(1)).rounded())) ms",
                ["passed": true, "seconds": .double(wait / .seconds(1))]
            )
        case .timeout(let problem):
            return ("the fence does not see it in time: \(problem)", ["passed": false, "message": .string(problem)])
        }
    }
}
