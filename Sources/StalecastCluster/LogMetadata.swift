package import StalecastRecords
package import StalecastStore
package import StalecastWire

/// The identity and the rules of a shared log, one value that is only changed by compare-and-set. A node that removes
/// entries or changes the epoch changes it in the same step, so that what was proposed under the one before never
/// lands.
package struct LogMetadata: Sendable, Hashable {
    /// Document that the log holds about itself; members that this program does not know stay as they are.
    private var document: JSONObject { didSet { stored = nil } }
    /// Bytes as they were read: compared one by one, whichever program wrote them.
    private var stored: [UInt8]?
    package let epoch: Epoch
    /// Revision of the log metadata's value; never twice in one history. Not part of the document.
    package var revision: Int64

    /// Format that this program writes and understands.
    package static let format: Int64 = 2
    /// Format of the first program that knows releases: below it they do not enter the log.
    package static let formatOfReleases: Int64 = 2

    package init(epoch: Epoch, revision: Int64 = 0) {
        document = [
            "format": .int(Self.format), "minimumVersion": .int(Self.format), "epoch": .string(epoch.description),
        ]
        self.epoch = epoch
        self.revision = revision
    }

    /// - Throws: ``LogError/unreadable(_:)``, also when it asks for a newer program.
    package init(_ bytes: some Sequence<UInt8>, revision: Int64) throws(LogError) {
        // What cannot be parsed is thrown as unreadable.
        guard let document = JSONValue.ifValid(bytes)?.object,
            let epoch = document["epoch"]?.string.flatMap({ Epoch($0) })
        else { throw .unreadable("the charter is not one; look at the key prefix") }
        self.document = document
        stored = Array(bytes)
        self.epoch = epoch
        self.revision = revision
        guard minimumVersion <= Self.format else {
            throw .unreadable("the log asks for format \(minimumVersion), this program has \(Self.format); upgrade it")
        }
    }

    /// The document as it is stored.
    package var encoded: [UInt8] { stored ?? JSONValue.object(document).encoded() }

    package static func == (a: LogMetadata, b: LogMetadata) -> Bool {
        a.document == b.document && a.revision == b.revision
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(document)
        hasher.combine(revision)
    }

    /// Every entry from this sequence on is there; below it, those that retention let stand. At least 1.
    package var prunedBelow: CommitSequence {
        get { max(1, CommitSequence(clamping: document["prunedBelow"]?.int64 ?? 1)) }
        set { document["prunedBelow"] = .int(newValue) }
    }

    /// The lowest format a node must understand to take part.
    package var minimumVersion: Int64 {
        get { document["minimumVersion"]?.int64 ?? 1 }
        set { document["minimumVersion"] = .int(newValue) }
    }

    /// Numbers that histories before this one gave away: by `project/namespace`, and under `*` those of every scope.
    package var floors: NumberFloors {
        var floors = NumberFloors()
        for (name, number) in (document["floors"]?.object ?? JSONObject()).members {
            guard let number = number.versionNumber else { continue }
            let parts = name.split(separator: "/")
            if name == "*" {
                floors.raiseAll(to: number)
                // Names of no scope say nothing to this program.
            } else if parts.count == 2, let project = try? ProjectID(String(parts[0])),
                let namespace = try? Namespace(String(parts[1]))
            {
                floors.raise(Scope(project: project, namespace: namespace), to: number)
            }
        }
        return floors
    }

    package mutating func raiseFloors(to other: NumberFloors) {
        var floors = floors
        floors.raise(to: other)
        var object: JSONObject = [:]
        for (scope, number) in floors.ofScopes { object[scope.description] = .int(number.rawValue) }
        if floors.ofAll > 0 { object["*"] = .int(floors.ofAll.rawValue) }
        document["floors"] = object.isEmpty ? nil : .object(object)
    }

    func raised(to floors: NumberFloors) -> LogMetadata {
        var logMetadata = self
        logMetadata.raiseFloors(to: floors)
        return logMetadata
    }

    /// Check value of the key that webhooks' secrets are sealed with, equal on all nodes; nil until a node has set it.
    package var keyCheck: String? {
        get { document["keyCheck"]?.string }
        set { document["keyCheck"] = newValue.map { .string($0) } }
    }

    /// Random text that the log renews with each value it stores. Without it a value after a restore could equal an
    /// earlier one, with the same revision and rules.
    package mutating func renewStamp(_ text: String = PublishID.random().description) {
        document["stamp"] = .string(text)
    }

    /// Whether an operator is changing something; no node appends meanwhile.
    package var isFrozen: Bool {
        get { document["frozen"]?.bool ?? false }
        set { document["frozen"] = newValue ? true : nil }
    }

    /// LogMetadata with these rules for a history that does not continue the one before.
    package func renewed(_ epoch: Epoch) -> LogMetadata {
        var logMetadata = LogMetadata(epoch: epoch)
        // Takes members over that this program does not know.
        logMetadata.document = document
        logMetadata.document["epoch"] = .string(epoch.description)
        return logMetadata
    }
}
