import StalecastDaemon
import StalecastStore
import StalecastTestSupport
import StalecastWire
import Testing

/// Versions that webhooks are told of when they catch up from the store.
@Suite struct WebhookHistoryTests {
    private static let scope = Scope(project: try! ProjectID("demo"), namespace: .firebase)

    /// Versions of one scope among commits of others, some of them released in stages.
    private struct History {
        var changes: [TemplateChange] = []
        var releases: [Release] = []
        var sequence: CommitSequence = 0
        private let policy = try! ReleasePolicy(json: ["stages": ["1%", "10%", "100%"]])

        mutating func publish(_ keys: [String]? = ["a"]) {
            sequence += 1
            let number = VersionNumber(clamping: Int64(changes.count + 1))
            let metadata = VersionMetadata(
                number: number, updateTime: Timestamp(microseconds: Int64(sequence)), updateType: .incremental)
            changes.append(
                TemplateChange(
                    scope: scope, sequence: sequence, metadata: metadata, etag: "etag-1-\(number)", changedKeys: keys))
        }

        mutating func begin(_ keys: [String]? = ["a"]) throws {
            publish(keys)
            let version = changes.last!.version
            var release = Release(scope: scope, version: version, base: version - 1, policy: policy)
            try release.begin(sequence: sequence, at: .now())
            releases.append(release)
        }

        mutating func advance() throws {
            sequence += 1
            try releases[releases.count - 1].advance(sequence: sequence, at: .now(), by: "test")
        }

        mutating func supersede(_ keys: [String]? = ["a"]) throws {
            publish(keys)
            try releases[releases.count - 1].supersede(by: changes.last!.version, at: .now(), by: "test")
        }

        mutating func rollBack() throws {
            publish(changes.last!.changedKeys)
            try releases[releases.count - 1].rollBack(to: changes.last!.version, at: .now(), by: "test")
        }

        func page(after sequence: CommitSequence, limit: Int) -> [TemplateChange] {
            WebhookHistory.page(after: sequence, limit: limit, releases) { after, limit in
                Array(changes.filter { $0.sequence > after }.prefix(limit))
            }
        }
    }

    @Test func aVersionThatOnlySomeStagesWereToldOfIsLeftOut() throws {
        var history = History()
        history.publish()
        try history.begin(["taken back"])
        try history.rollBack()
        try history.begin(["superseded"])
        try history.advance()
        try history.supersede(["instant"])
        try history.begin(["promoted"])
        try history.advance()
        try history.advance()
        try history.begin(["open"])
        let told = WebhookHistory.told(history.changes, history.releases)
        #expect(told.map(\.version) == [1, 3, 5, 6])
        #expect(
            told.map(\.changedKeys) == [["a"], ["taken back"], ["instant", "superseded"], ["promoted"]])
        #expect(told.last?.sequence == history.sequence - 1, "where its last stage was told")
    }

    @Test func keysThatAreNotKnownStayUnknown() throws {
        for (staged, next) in [(nil, ["b"]), (["a"], nil)] as [([String]?, [String]?)] {
            var history = History()
            history.publish()
            try history.begin(staged)
            try history.supersede(next)
            let told = WebhookHistory.told(history.changes, history.releases)
            #expect(told.map(\.version) == [1, 3] && told.last?.changedKeys == nil)
        }
    }

    @Test(arguments: 0..<30) func pagesFromAnySequenceAreTheWholeInParts(_ seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var history = History()
        history.publish()
        for number in 0..<40 {
            let (isOpen, told) = (history.releases.last?.isOpen ?? false, history.releases.last?.isWhole ?? false)
            switch random.next() % 5 {
            case 0: history.sequence += 1
            case 1 where isOpen && !told: try history.advance()
            case 2 where isOpen: try history.rollBack()
            case 3 where isOpen: try history.supersede(["\(number)"])
            case 4 where !isOpen: try history.begin(["\(number)"])
            default: if !isOpen { history.publish(["\(number)"]) }
            }
        }
        let whole = WebhookHistory.told(history.changes, history.releases)
        for sequence in 0...history.sequence {
            for limit in [1, 2, 7, 100] {
                var (pages, after): ([TemplateChange], CommitSequence) = ([], sequence)
                while let last = history.page(after: after, limit: limit).last {
                    pages += history.page(after: after, limit: limit)
                    after = last.sequence
                }
                #expect(pages == whole.filter { $0.sequence > sequence }, "after \(sequence) by \(limit)")
            }
        }
    }
}
