package import StalecastWire

/// Last announcement of every topic. The hub owns one; each shard has its own copy and applies announcements in order,
/// so that a shard's subscribers see one consistent history without a lock.
package struct TopicBoard: Sendable {
    package let epoch: Epoch
    package private(set) var headSequence: CommitSequence
    package internal(set) var topics: [Topic] = []
    /// Topics of each scope, those of stages and retired ones included.
    private(set) var own: [Scope: [Topic.Index]] = [:]
    /// Topics by name and project, each with its scopes.
    private(set) var topicsByKey: [TopicKey: [Topic.Index]] = [:]
    private(set) var histories: [Scope: History] = [:]
    /// Scopes that a release split, see ``Split``, and the topics of stages by the topics they are of.
    var splits: [Scope: Split] = [:]
    package internal(set) var stageTopics: [Topic.Index: [Topic.Index]] = [:]
    /// Projects by id and by number.
    private let projects: [String: ProjectID]
    /// The project of requests that name none; nil when there are several.
    private let onlyProject: ProjectID?

    struct TopicKey: Hashable {
        let name: TopicName
        let project: ProjectID
    }

    /// The topics clients can name, each once for every scope.
    var namedTopics: [Topic] { topics.filter { !$0.isRetired && !$0.isInvalidation && $0.base == nil } }

    /// Names for clients and their bindings, in the order of names.
    package var bindings: [TopicBinding] {
        Dictionary(grouping: namedTopics, by: \.name).sorted { $0.key < $1.key }
            .map { name, topics in TopicBinding(name: name, scopes: topics.map(\.scope), keys: topics[0].keys) }
    }

    /// - Parameters:
    ///   - head: the store's sequence at start.
    ///   - projects: by every name clients may use; those of the bindings by their ids when it is left out.
    ///   - changes: the stored versions of all scopes, oldest first within a scope.
    package init(
        epoch: Epoch, head: CommitSequence, projects: [String: ProjectID] = [:], bindings: [TopicBinding],
        changes: [TemplateChange]
    ) {
        self.epoch = epoch
        headSequence = head
        let bound = bindings.flatMap(\.scopes).map { ($0.project.description, $0.project) }
        self.projects = projects.isEmpty ? Dictionary(bound) { first, _ in first } : projects
        let ids = Set(self.projects.values)
        onlyProject = ids.count == 1 ? ids.first : nil
        let byScope = Dictionary(grouping: changes, by: \.scope)
        histories = byScope.mapValues { History($0) }
        bind(bindings) { $0.lastHeard(of: byScope[$0.scope] ?? []) }
    }

    /// State in memory of its own, for another thread to change: the first announcement then copies nothing, and no two
    /// threads ever meet in one buffer.
    package var unshared: TopicBoard {
        var copy = self
        copy.topics = topics.map { $0 }
        copy.histories = histories.mapValues(\.unshared)
        return copy
    }

    package var head: Cursor { Cursor(epoch: epoch, sequence: headSequence) }

    package subscript(_ index: Topic.Index) -> Topic { topics[Int(index.rawValue)] }

    // MARK: Names

    /// Topics of a request that names topics, and perhaps a project (id or number) and a namespace: those of that scope
    /// alone, or of the project. A request that names no project means the only one there is.
    ///
    /// - Returns: the topics found, and the names without a topic, which the client must be told of.
    package func topics(
        named names: [TopicName], project: String? = nil, namespace: String? = nil
    ) throws(TopicError) -> (known: [Topic.Index], unknown: [TopicName]) {
        let project = try self.project(project)
        var (known, unknown): ([Topic.Index], [TopicName]) = ([], [])
        known.reserveCapacity(names.count)
        for name in names {
            let before = known.count
            for index in topicsByKey[TopicKey(name: name, project: project)] ?? [] where !self[index].isRetired {
                if namespace == nil || namespace == self[index].scope.namespace.description { known.append(index) }
            }
            if known.count == before { unknown.append(name) }
        }
        if known.isEmpty { throw .unknownTopics }
        return (known, unknown)
    }

    /// Project of this name, or the only project when `name` is nil; nil when there is none.
    package func projectID(_ name: String?) -> ProjectID? { try? project(name) }

    private func project(_ name: String?) throws(TopicError) -> ProjectID {
        if let name {
            guard let project = projects[name] else { throw .unknownProject }
            return project
        }
        guard let onlyProject else { throw .projectIsMissing }
        return onlyProject
    }

    /// The topics of this name in a project, one for each scope.
    package func topics(_ name: TopicName, in project: ProjectID) -> [Topic.Index] {
        (topicsByKey[TopicKey(name: name, project: project)] ?? []).filter { !self[$0].isRetired }
    }

    /// The hidden topic of a scope; nil when there is no such scope.
    package func invalidations(of scope: Scope) -> Topic.Index? {
        topics(.ofScope(scope), in: scope.project).first
    }

    // MARK: Bindings

    /// Replaces the bindings; topics keep their index, those not named are retired. Takes a moment where there are many
    /// scopes and patterns.
    mutating func rebind(_ bindings: [TopicBinding]) {
        bind(bindings) { [histories] in $0.lastHeard(of: histories[$0.scope]?.changes ?? []) }
    }

    private mutating func bind(_ bindings: [TopicBinding], lastHeard: (Topic) -> TemplateChange?) {
        let before = topics
        for index in topics.indices { topics[index].isRetired = true }
        for binding in bindings {
            for scope in binding.scopes {
                let key = TopicKey(name: binding.name, project: scope.project)
                var topic = Topic(binding, scope: scope)
                if let index = topicsByKey[key]?.first(where: { self[$0].scope == scope }) {
                    let old = before[Int(index.rawValue)]
                    if old.keys == topic.keys, !old.isRetired { topic = old } else { topic.latest = lastHeard(topic) }
                    topics[Int(index.rawValue)] = topic
                } else {
                    topic.latest = lastHeard(topic)
                    topicsByKey[key, default: []].append(add(topic))
                }
            }
        }
        reseatStages(before: before)
    }

    /// Topics are never removed, so an index stays valid.
    mutating func add(_ topic: Topic) -> Topic.Index {
        let index = Topic.Index(topics.count)
        own[topic.scope, default: []].append(index)
        topics.append(topic)
        return index
    }

    /// Takes over the topics of a board of the same moment.
    package mutating func takeTopics(of board: TopicBoard) {
        topics = board.topics.map { $0 }
        (own, topicsByKey) = (board.own, board.topicsByKey)
        splits = board.splits
        stageTopics = board.stageTopics
    }

    // MARK: Announcing

    /// Makes and encodes the messages of a change, without applying them.
    ///
    /// - Parameter audience: the stages it is for; nil is all.
    package func announcement(
        of change: TemplateChange, to audience: ReleaseAudience? = nil, fetchWindowMs: Int, reportRatio: Double = 1,
        pacedOverMs: Int = 0, at time: UInt64
    ) -> Announcement {
        var encodedMessages: [(Topic.Index, EncodedMessage)] = []
        /// Stages that hold the same version share a message.
        var encoded: [Topic.Index: EncodedMessage] = [:]
        for index in own[change.scope] ?? [] {
            let topic = self[index]
            guard !topic.isRetired, hears(topic, change), concerns(topic, audience) else { continue }
            let since = topic.latest?.version ?? 0
            let base = topic.base ?? index
            if let known = encoded[base], known.message.since == since {
                encodedMessages.append((index, known))
                continue
            }
            var keys = change.changedKeys
            if since != change.version - 1 { keys = unionKeys(since: since, with: change) }
            let message = StaleMessage(
                topic: topic.name, change: change, since: since, changedKeys: topic.own(keys),
                fetchWindowMs: fetchWindowMs, reportRatio: reportRatio)
            let encodedMessage = EncodedMessage(message, epoch: epoch, isInvalidation: topic.isInvalidation)
            if topic.base != nil || stageTopics[base] != nil { encoded[base] = encodedMessage }
            encodedMessages.append((index, encodedMessage))
        }
        return Announcement(
            change: change, audience: audience, encodedMessages: encodedMessages, pacedOverMs: pacedOverMs,
            announcedAt: time)
    }

    private func unionKeys(since: VersionNumber, with change: TemplateChange) -> [String]? {
        guard let own = change.changedKeys else { return nil }
        let before = histories[change.scope]?.changedKeys(since: since, through: change.version - 1)
        return before.map { Set($0).union(own).sorted() }
    }

    package mutating func apply(_ announcement: Announcement) {
        let change = announcement.change
        headSequence = change.sequence
        if announcement.audience == .empty { return }
        let isOverPartial = splits[change.scope]?.isPartial(before: change) ?? false
        histories[change.scope, default: History([])].append(change, isOverPartial: isOverPartial)
        noteStages(announcement)
        for (topic, encodedMessage) in announcement.encodedMessages {
            topics[Int(topic.rawValue)].latest = change
            topics[Int(topic.rawValue)].encodedMessage = encodedMessage
        }
    }

    /// The newest changes of one scope, oldest first, to answer "what changed since version v" while that is known.
    struct History: Sendable {
        /// Number of changes that are kept, as many as the store keeps by default; older ones are forgotten and their
        /// changes become "anything".
        static let capacity = 300

        private(set) var changes: [TemplateChange]

        init(_ changes: [TemplateChange]) { self.changes = changes.suffix(2 * Self.capacity).map(\.withSmallKeys) }

        var unshared: History {
            var copy = self
            copy.changes = changes.map { $0 }
            return copy
        }

        /// A later stage takes the place of the one before it: a cursor from between the two may be that of a client
        /// which was told of neither.
        ///
        /// - Parameter isOverPartial: only some clients were told of the version before, so a cursor says nothing of
        ///   it, nor of the release that it took back: those two have one sequence.
        mutating func append(_ change: TemplateChange, isOverPartial: Bool = false) {
            if let last = changes.last, last.version == change.version {
                changes.removeLast()
            } else if isOverPartial, let last = changes.last {
                for place in changes.indices.reversed() {
                    guard changes[place].sequence == last.sequence else { break }
                    changes[place] = changes[place].at(change.sequence)
                }
            }
            if changes.count >= 2 * Self.capacity { changes.removeFirst(Self.capacity) }
            changes.append(change.withSmallKeys)
        }

        /// The version in force at `sequence`, 0 before the first; nil when that was before the oldest known change.
        ///
        /// - Parameter limit: version that the subscriber is owed, and so does not hold: in a staged release `sequence`
        ///   may lie beyond the first announcement of that version.
        func version(at sequence: CommitSequence, below limit: VersionNumber = .max) -> VersionNumber? {
            if let change = changes.last(where: { $0.sequence <= sequence && $0.version < limit }) {
                return change.version
            }
            return changes.first?.version == 1 ? 0 : nil
        }

        /// The union of changed keys over the versions in `(since, latest]`; nil when one of them is unknown.
        func changedKeys(since: VersionNumber, through latest: VersionNumber) -> [String]? {
            var union: Set<String> = []
            var (count, isKnown): (Int64, Bool) = (0, false)
            // From the end, where nearly all spans are, and by places: a copy of a change takes a dozen references.
            for place in changes.indices.reversed() where changes[place].version <= latest {
                guard changes[place].version > since else {
                    // An origin's versions may skip numbers; what follows a known version is known.
                    isKnown = changes[place].version == since
                    break
                }
                guard let keys = changes[place].changedKeys else { return nil }
                union.formUnion(keys)
                count += 1
            }
            guard isKnown || count == latest - since else { return nil }
            return union.count <= StaleMessage.maxChangedKeys ? union.sorted() : nil
        }
    }

    /// Reason why the names in a request lead to no topic.
    package enum TopicError: Error {
        /// The request names no project, and there are several.
        case projectIsMissing
        case unknownProject
        case unknownTopics
    }

    /// A committed change and the messages it makes, encoded: what the hub hands to every shard.
    package struct Announcement: Sendable {
        package let change: TemplateChange
        /// The stages of a release it is for; nil is all.
        package let audience: ReleaseAudience?
        package let encodedMessages: [(topic: Topic.Index, encodedMessage: EncodedMessage)]
        /// Milliseconds over which Firebase's streams are told; 0 tells all at once.
        package let pacedOverMs: Int
        /// Time of the announcement, in nanoseconds of the monotonic clock; for the publish-to-written histogram.
        package let announcedAt: UInt64
    }
}

extension Topic {
    /// Last change among those of its scope, oldest first, that it would have announced. Without one, and with older
    /// versions gone, the oldest stands in: better one message too many than one too few.
    func lastHeard(of changes: [TemplateChange]) -> TemplateChange? {
        if let heard = changes.last(where: keys.hear) { return heard }
        guard let oldest = changes.first, oldest.version > 1 else { return nil }
        return oldest
    }
}

extension TemplateChange {
    /// Change without a list of keys too long to be sent.
    fileprivate var withSmallKeys: TemplateChange {
        guard let changedKeys, changedKeys.count > StaleMessage.maxChangedKeys else { return self }
        return TemplateChange(
            scope: scope, sequence: sequence, metadata: metadata, etag: etag, changedKeys: nil, notes: notes)
    }
}

/// A topic as configured: its name and what it is bound to.
package struct TopicBinding: Sendable, Hashable {
    package let name: TopicName
    package let scopes: [Scope]
    /// Only versions that change a parameter matching one of these are announced; empty means every version.
    package let keys: [KeyPattern]

    /// True for the hidden topic of a scope's Firebase invalidation streams, whose messages are in their dialect.
    package let isInvalidation: Bool

    package init(name: TopicName, scopes: [Scope], keys: [KeyPattern] = []) {
        (self.name, self.scopes, self.keys) = (name, scopes, keys)
        isInvalidation = false
    }

    package init(invalidationsOf scope: Scope) {
        name = .ofScope(scope)
        scopes = [scope]
        keys = []
        isInvalidation = true
    }

    package func hears(_ change: TemplateChange) -> Bool { keys.hear(change) }

    /// The names among changed parameters that the topic is about; nil stays "anything".
    package func own(_ changed: [String]?) -> [String]? { keys.own(changed) }
}

/// State of a topic in one of the scopes it is bound to. As in FCM, a topic belongs to a project. A name that is bound
/// to several scopes has one `Topic` for each, so subscribers of one scope hear nothing of the others, and no message
/// is filtered.
package struct Topic: Sendable {
    package let name: TopicName
    package let scope: Scope
    package let isInvalidation: Bool
    package internal(set) var keys: [KeyPattern]
    /// The change announced last; nil while no version of the scope has concerned the topic.
    package internal(set) var latest: TemplateChange?
    /// Its live message, encoded; nil for a change that was announced before this process started.
    package internal(set) var encodedMessage: EncodedMessage?
    /// Topic that clients name, and the stage, for a stage's topic; see ``TopicBoard/Split``.
    package internal(set) var base: Index?
    package internal(set) var stage: Int?
    /// True when a reload took the topic away; no client can subscribe any more.
    package internal(set) var isRetired = false

    init(_ binding: TopicBinding, scope: Scope) {
        name = binding.name
        self.scope = scope
        isInvalidation = binding.isInvalidation
        keys = binding.keys
    }

    /// Names among the changed parameters that it is about; nil stays "anything".
    func own(_ changed: [String]?) -> [String]? {
        keys.own(changed)
    }

    /// A topic's place in a ``TopicBoard``; stable for the life of the process, also across reloads.
    package struct Index: Hashable, Sendable {
        package let rawValue: Int32

        package init(_ rawValue: Int) { self.rawValue = Int32(rawValue) }
        package init(rawValue: Int32) { self.rawValue = rawValue }
    }
}

extension [KeyPattern] {
    /// Whether a topic with these patterns announces a change of its scope; without any it announces all.
    func hear(_ change: TemplateChange) -> Bool {
        guard !isEmpty, let changed = change.changedKeys else { return true }
        return changed.contains(where: concern)
    }

    func own(_ changed: [String]?) -> [String]? { isEmpty ? changed : changed?.filter(concern) }

    func concern(_ key: String) -> Bool { contains { $0.matches(key) } }
}
