import Foundation
import GRDB
package import StalecastWire

/// Document that the owner of an assignment leaves to its successor.
extension DeliveryImage {
    /// Reads a document. From another history (`epoch`) only the health counts: its places say nothing here, and the
    /// newest version is owed. What cannot be read is left out: its webhook is owed its newest version as well.
    package init(document: [UInt8], epoch: Epoch) {
        guard let document = try? JSONValue.parse(document) else { return }
        let isRenewed = document["epoch"]?.string != epoch.description
        for (name, value) in document["webhooks"]?.object?.members ?? [] {
            guard let id = WebhookID(name) else { continue }
            ids.insert(id)
            if let stored = value["health"] { health[id] = JournalEntry.TargetHealth(stored) }
            for (name, stored) in value["lanes"]?.object?.members ?? [] {
                guard let scope = Scope(stored: name) else { continue }
                lanes[id, default: [:]][scope] =
                    isRenewed
                    ? StoredLane(JournalEntry.LaneRecord(), isRenewed: true) : StoredLane(document: stored)
            }
        }
    }

    /// Image that a daemon by itself has left in its database; a node begins with it. Blocks.
    ///
    /// - Returns: nil where there is none.
    package static func left(in directory: String, epoch: Epoch) throws -> DeliveryImage? {
        let path = "\(directory)/\(WebhookDelivery.fileName)"
        guard FileManager.default.fileExists(atPath: path) else { return nil }
        let database = try DeliveryDatabase(path: path, epoch: epoch)
        defer {
            // Read only: what cannot be closed is closed by the end of the process.
            try? database.queue.close()
        }
        return try database.load()
    }

    package func only(_ chosen: Set<WebhookID>) -> DeliveryImage {
        var image = DeliveryImage()
        image.ids = ids.intersection(chosen)
        image.lanes = lanes.filter { chosen.contains($0.key) }
        image.health = health.filter { chosen.contains($0.key) }
        return image
    }

    package func document(epoch: Epoch) -> [UInt8] {
        var webhooks = JSONObject()
        for id in ids.sorted() {
            let own = (lanes[id] ?? [:]).sorted { $0.key < $1.key }.reduce(into: JSONObject()) {
                $0[$1.key.description] = $1.value.document
            }
            webhooks[id.description] = ["health": health[id]?.document, "lanes": .object(own)]
        }
        return JSONValue.object(["epoch": .string(epoch.description), "webhooks": .object(webhooks)]).encoded()
    }

    /// Applies an entry, so that the image holds what the database would hold after it.
    package mutating func take(_ entry: JournalEntry) {
        if case .dead = entry { return }
        ids.insert(entry.webhook)
        switch entry {
        case .lane(let id, let scope, let record):
            var lane = lanes[id]?[scope] ?? StoredLane()
            lane.record = record
            lane.isRenewed = false
            lane.beyond = lane.beyond.filter { $0.key > record.cursor.sequence }
            lanes[id, default: [:]][scope] = lane
        case .beyond(let id, let scope, let place):
            lanes[id, default: [:]][scope, default: StoredLane()].beyond[place.sequence] = place.version
        case .health(let id, let health): self.health[id] = health
        case .extras(let id, let scope, let sequences, let areOwed):
            if areOwed {
                lanes[id, default: [:]][scope, default: StoredLane()].extras.formUnion(sequences)
            } else {
                lanes[id]?[scope]?.extras.subtract(sequences)
            }
        case .removed(let id):
            ids.remove(id)
            lanes[id] = nil
            health[id] = nil
        case .dead: break
        }
    }
}

extension JournalEntry {
    var webhook: WebhookID {
        switch self {
        case .lane(let id, _, _), .beyond(let id, _, _), .health(let id, _), .dead(let id, _), .extras(let id, _, _, _),
            .removed(let id):
            id
        }
    }
}

extension DeliveryImage.StoredLane {
    fileprivate init(document: JSONValue) {
        self.init()
        record.cursor = ScopeLog.Place(document: document["cursor"])
        record.acknowledged = ScopeLog.Place(document: document["acknowledged"])
        record.givenUp = CommitSequence(clamping: document["givenUp"]?.int64 ?? 0)
        for place in document["beyond"]?.array ?? [] {
            let place = ScopeLog.Place(document: place)
            beyond[place.sequence] = place.version
        }
        for sequence in document["extras"]?.array ?? [] {
            if let sequence = sequence.int64, sequence > 0 { extras.insert(CommitSequence(sequence)) }
        }
    }

    fileprivate var document: JSONValue {
        let beyond = beyond.sorted { $0.key < $1.key }.map { ScopeLog.Place(version: $1, sequence: $0).document }
        return [
            "cursor": record.cursor.document, "acknowledged": record.acknowledged.document,
            "givenUp": record.givenUp > 0 ? .int(record.givenUp) : nil,
            "beyond": beyond.isEmpty ? nil : .array(beyond),
            "extras": extras.isEmpty ? nil : .array(extras.sorted().map { .int($0) }),
        ]
    }
}

extension ScopeLog.Place {
    /// `[version, sequence]`; anything else is the start.
    fileprivate init(document: JSONValue?) {
        let parts = document?.array ?? []
        self = .start
        guard parts.count == 2, let version = parts[0].int64, let sequence = parts[1].int64, sequence >= 0 else {
            return
        }
        self.init(version: VersionNumber(clamping: version), sequence: CommitSequence(sequence))
    }

    fileprivate var document: JSONValue { .array([.int(version.rawValue), .int(sequence)]) }
}

extension JournalEntry.TargetHealth {
    fileprivate init(_ document: JSONValue) {
        self.init()
        failures = Int(clamping: max(0, document["failures"]?.int64 ?? 0))
        failedAttempts = Int(clamping: max(0, document["failedAttempts"]?.int64 ?? 0))
        failingTime = max(0, document["failingTime"]?.int64 ?? 0)
        failingSince = document["failingSince"]?.string.flatMap(Timestamp.init)
        disabledReason = document["disabledReason"]?.string
        disabledSince = document["disabledSince"]?.string.flatMap(Timestamp.init)
        receiver = document["receiver"]?.string
    }

    fileprivate var document: JSONValue {
        [
            "failures": .int(failures), "failedAttempts": .int(failedAttempts), "failingTime": .int(failingTime),
            "failingSince": .described(failingSince), "disabledReason": .described(disabledReason),
            "disabledSince": .described(disabledSince), "receiver": .described(receiver),
        ]
    }
}
