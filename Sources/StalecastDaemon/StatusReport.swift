import Foundation
import StalecastEdge
import StalecastHub
import StalecastStore
import StalecastWire

/// What `/status` says: one JSON document for people and scripts.
struct StatusReport {
    let daemon: Daemon.Parts

    func json() async -> JSONValue {
        let presence = await daemon.edge.presence()
        let tally = daemon.edge.tally
        let usage = ProcessUsage.now()
        let (reasons, health) = (await daemon.readiness.reasons(), await daemon.store.health)
        return [
            "version": .string(DaemonVersion.text), "pid": .int(ProcessInfo.processInfo.processIdentifier),
            "startedAt": .string(daemon.startedAt.description),
            "ready": .bool(reasons.isEmpty),
            "notReady": .array(reasons.map(JSONValue.string)),
            "epoch": .string(daemon.store.epoch.description), "cursor": .string(daemon.hub.head.description),
            "scopes": .array(scopes()), "topics": .array(topics(presence)),
            "edge": [
                "connections": .int(daemon.edge.connections), "streams": .int(tally.streams),
                "polls": .int(tally.polls), "stalled": .int(tally.stalled),
                "deliveries": .int(tally.deliveries.values.reduce(0, +)), "coalesced": .int(tally.coalesced),
                "drops": drops(tally.drops), "refused": drops(tally.refused),
            ],
            "fetch": fetches(tally.fetches),
            "webhooks": await webhooks(),
            "sources": .array(sources()),
            "store": [
                "health": .string("\(health)"), "sequence": .string(String(daemon.store.head())),
                "published": .int(daemon.store.figures.published),
                "rolledBack": .int(daemon.store.figures.rolledBack),
            ],
            "process": [
                "residentBytes": .int(usage.residentBytes), "cpuSeconds": .double(usage.cpuSeconds),
                "descriptors": .int(usage.descriptors),
            ],
        ]
    }

    private func scopes() -> [JSONValue] {
        daemon.scopes.map { scope in
            let current = daemon.store.currentTemplates[scope]
            var object: JSONObject = [
                "project": .string(scope.project.description), "namespace": .string(scope.namespace.description),
                "versionNumber": .string(String(current?.version ?? 0)),
            ]
            if let current {
                object["etag"] = .string(current.etag)
                object["updateTime"] = .string(current.metadata.updateTime.description)
                object["updateType"] = .string(current.metadata.updateType.rawValue)
            }
            return .object(object)
        }
    }

    private func drops(_ counts: [DropReason: Int]) -> JSONValue {
        var object = JSONObject()
        for reason in DropReason.allCases { if let count = counts[reason] { object[reason.rawValue] = .int(count) } }
        return .object(object)
    }

    /// The topics with what they are bound to and who listens.
    private func topics(_ presence: Presence) -> [JSONValue] {
        Dictionary(grouping: daemon.hub.topics, by: \.name).sorted { $0.key < $1.key }.map {
            describe($0, $1, presence)
        }
    }

    /// - Parameter topics: the topic in each of its scopes.
    private func describe(_ name: TopicName, _ topics: [Topic], _ presence: Presence) -> JSONValue {
        let scopes = topics.map { topic -> JSONValue in
            var object: JSONObject = [
                "project": .string(topic.scope.project.description),
                "namespace": .string(topic.scope.namespace.description),
                "latestTemplateVersionNumber": .string(String(topic.latest?.version ?? 0)),
            ]
            if let latest = topic.latest {
                object["cursor"] = .string(Cursor(epoch: daemon.store.epoch, sequence: latest.sequence).description)
            }
            return .object(object)
        }
        let subscribers = Transport.allCases.map { ($0.rawValue, JSONValue.int(presence.count(name, $0))) }
        var counts = JSONObject()
        for (transport, count) in subscribers { counts[transport] = count }
        return [
            "name": .string(name.description), "scopes": .array(scopes),
            "keys": .array(topics[0].keys.map { .string("\($0)") }), "subscribers": .object(counts),
        ]
    }
}
