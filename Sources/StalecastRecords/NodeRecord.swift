import Crypto
package import StalecastWire

/// Record that a node keeps of itself for the others. Members that are missing or unreadable are empty: a newer node is
/// a node.
package struct NodeRecord: Sendable, Hashable {
    /// Addresses where it listens, by listener (`edge`, `control`), for people.
    package var addresses: [String: String] = [:]
    /// The program's.
    package var version = ""
    /// Differs where nodes are configured differently.
    package var configurationHash = ""
    /// Marks of its settings by name; a mark differs where the setting does.
    package var settings: [String: String] = [:]
    /// The newest entry it has applied.
    package var head = LogHead.empty
    package var subscribers: Int64 = 0
    /// Subscribers of its largest topics, at most ``maxTopics``.
    package var topics: [TopicName: Int64] = [:]
    /// Assignments are others': it ends, or cannot store what it reads.
    package var isLeaving = false
    /// Whether the node only follows the log: it has no assignments and proposes nothing.
    package var isEdge = false
    /// Milliseconds that etcd takes to answer it; nil: not known. See ``note(delay:unverified:)``.
    package private(set) var etcdDelayMs: Int?
    /// Least age of its copy of the log, in seconds; nil while the log has confirmed it lately.
    package private(set) var unverifiedSeconds: Int64?
    /// Run of the program: two daemons with one node id differ in it.
    package var instance = ""

    package static let kind = "node"
    package static let maxTopics = 256
    /// The most bytes of their names together: a record above ``SharedRecord/maxBytes`` is never written.
    private static let maxTopicBytes = 32 << 10
    private static let maxSettings = 100
    private static let edge = "edge"

    package init() {}

    package init(_ value: [UInt8]) {
        // An unreadable record is that of a newer node.
        guard let document = JSONValue.ifValid(value)?.object else { return }
        for (name, address) in document["addresses"]?.object?.members ?? [] { addresses[name] = address.string }
        version = document["version"]?.string ?? ""
        configurationHash = document["configuration"]?.string ?? ""
        for (name, mark) in (document["settings"]?.object?.members ?? []).prefix(Self.maxSettings) {
            settings[name] = mark.string
        }
        head = document["head"]?.string.flatMap { LogHead($0) } ?? .empty
        subscribers = Self.count(document["subscribers"])
        for (name, count) in (document["topics"]?.object?.members ?? []).prefix(Self.maxTopics) {
            // A text that is no topic's name has no subscribers.
            if let topic = try? TopicName(name) { topics[topic] = Self.count(count) }
        }
        isEdge = document["role"]?.string == Self.edge
        isLeaving = document["leaving"]?.bool ?? false
        etcdDelayMs = document["etcdDelayMs"]?.int64.map { Int(Self.limited($0)) }
        unverifiedSeconds = document["unverifiedSeconds"]?.int64.map(Self.limited)
        instance = document["instance"]?.string ?? ""
    }

    /// Notes what this node measures. A small change is left out, because each change of the record is a write to etcd.
    ///
    /// - Parameters:
    ///   - delay: noted when it differs by more than a quarter, and by 5 ms.
    ///   - unverified: age of its copy; nil while that is usual. Noted when it has doubled.
    package mutating func note(delay: Duration?, unverified: Duration?) {
        if let delay = delay?.milliseconds, etcdDelayMs.map({ abs(delay - $0) > max($0 / 4, 4) }) ?? true {
            etcdDelayMs = delay
        }
        guard let age = unverified?.components.seconds else { return unverifiedSeconds = nil }
        if age >= (unverifiedSeconds ?? 0) * 2 { unverifiedSeconds = age }
    }

    /// Names of settings that differ at another node, in order; a node whose program does not report them has none.
    /// An edge leaves out what it has no use for, so only what both name counts there.
    package func differences(from other: NodeRecord) -> [String] {
        if settings.isEmpty || other.settings.isEmpty { return [] }
        let (ours, theirs) = (Set(settings.keys), Set(other.settings.keys))
        let names = isEdge || other.isEdge ? ours.intersection(theirs) : ours.union(theirs)
        return names.filter { settings[$0] != other.settings[$0] }.sorted()
    }

    /// Whether another node is configured otherwise.
    package func isConfigured(unlike other: NodeRecord) -> Bool {
        if isEdge || other.isEdge { return !differences(from: other).isEmpty }
        return configurationHash != other.configurationHash
    }

    package var encoded: [UInt8] {
        var document: JSONObject = [
            "version": .string(version), "configuration": .string(configurationHash),
            "head": .string(head.description), "subscribers": .int(subscribers), "instance": .string(instance),
        ]
        if isEdge { document["role"] = .string(Self.edge) }
        // Programs that know no edges must not give one an assignment.
        if isLeaving || isEdge { document["leaving"] = true }
        document["etcdDelayMs"] = etcdDelayMs.map { .int($0) }
        document["unverifiedSeconds"] = unverifiedSeconds.map { .int($0) }
        for (member, texts) in [("addresses", addresses), ("settings", settings)] {
            let sorted = texts.sorted { $0.key < $1.key }
            document[member] = .object(sorted.reduce(into: [:]) { $0[$1.key] = .string($1.value) })
        }
        var counts = JSONObject()
        let largest = topics.sorted { ($1.value, $0.key.description) < ($0.value, $1.key.description) }
        var bytes = 0
        for (topic, count) in largest.prefix(Self.maxTopics) {
            bytes += topic.description.utf8.count
            if bytes > Self.maxTopicBytes { break }
            counts[topic.description] = .int(count)
        }
        document["topics"] = .object(counts)
        return JSONValue.object(document).encoded()
    }

    /// Count that another node reports, limited: it may be anything, and sums of it must not overflow.
    private static func count(_ value: JSONValue?) -> Int64 { limited(value?.int64 ?? 0) }

    private static func limited(_ count: Int64) -> Int64 { min(max(count, 0), 1 << 40) }
}

/// Living nodes, and the time since when it has been these. Times are of a clock that goes on while the machine sleeps.
package struct LivingNodes: Sendable {
    package private(set) var nodes: [String: NodeRecord] = [:]
    /// Nodes that went away, and have not come back: last record, and time since when it is gone. See ``gone(at:)``.
    package private(set) var gone: [String: (record: NodeRecord, since: Duration)] = [:]
    private var changed: Duration = .zero
    private static let remembered = Duration.seconds(3600)
    private static let mostRemembered = 100

    package init() {}

    /// nil: it lives no more.
    package mutating func heard(_ record: NodeRecord?, of id: String, now: Duration) {
        let isBack = nodes[id]?.isLeaving == true && record?.isLeaving == false
        // Edges come and go without moving an assignment.
        let isEdge = record?.isEdge ?? nodes[id]?.isEdge ?? false
        if !isEdge, (nodes[id] == nil) != (record == nil) || isBack { changed = now }
        gone = gone(at: now)
        if record != nil {
            gone[id] = nil
        } else if let last = nodes[id] {
            let oldest = gone.min { $0.value.since < $1.value.since }
            if gone.count >= Self.mostRemembered, let oldest { gone[oldest.key] = nil }
            gone[id] = (last, now)
        }
        nodes[id] = record
    }

    /// Nodes that went away in the last hour. ``gone`` may have older ones, because only changes of records remove them.
    package func gone(at now: Duration) -> [String: (record: NodeRecord, since: Duration)] {
        gone.filter { now - $1.since < Self.remembered }
    }

    /// True when no node came, came back or went for so long; edges do not count.
    package func isStable(for time: Duration, now: Duration) -> Bool { changed + time <= now }

    /// The node that should have an assignment, by rendezvous hashing: when a node comes or goes, only its own
    /// assignments move. A node that is leaving has none, unless all nodes are; an edge never has one.
    package func owner(of assignment: String) -> String? {
        let core = nodes.filter { !$0.value.isEdge }
        let staying = core.filter { !$0.value.isLeaving }
        return (staying.isEmpty ? core : staying).keys.max {
            (Self.weight(assignment, $0), $0) < (Self.weight(assignment, $1), $1)
        }
    }

    private static func weight(_ assignment: String, _ node: String) -> UInt64 {
        SHA256.hash(data: Array("\(assignment)\0\(node)".utf8)).prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }
}
