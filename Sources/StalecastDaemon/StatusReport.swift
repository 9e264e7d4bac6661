import CLinux
import Foundation
import StalecastAccess
import StalecastControl
import StalecastEdge
import StalecastHub
import StalecastSources
import StalecastStore
import StalecastWebhooks
import StalecastWire

/// Content of `/status`: one JSON document for people and scripts.
struct StatusReport {
    let daemon: Daemon.Parts

    func json() async -> JSONValue {
        let presence = await daemon.edge.presence()
        let tally = daemon.edge.tally
        let usage = ProcessUsage.now()
        let (reasons, health) = (await daemon.readiness.reasons(), await daemon.store.health)
        let slow = await slowReaders()
        return [
            "version": .string(DaemonVersion.text), "revision": .string(DaemonVersion.revision),
            "pid": .int(ProcessInfo.processInfo.processIdentifier),
            "startedAt": .string(daemon.startedAt.description),
            "ready": .bool(reasons.isEmpty),
            "notReady": .texts(reasons),
            "degraded": .texts(daemon.readiness.degraded),
            "epoch": .string(daemon.store.epoch.description), "cursor": .string(daemon.hub.head.description),
            "scopes": .array(scopes()), "topics": .array(topics(presence)),
            "edge": [
                "connections": .int(daemon.edge.connections), "streams": .int(tally.streams),
                "polls": .int(tally.polls), "stalled": .int(tally.stalled),
                "deliveries": .int(tally.deliveries.values.reduce(0, +)), "coalesced": .int(tally.coalesced),
                "written": [
                    "count": .int(tally.publishToWritten.count), "seconds": .double(tally.publishToWritten.sum),
                ],
                "drops": .counts(tally.drops.inOrder), "refused": .counts(tally.refused.inOrder),
                "slowReaders": slow.map { .int($0) },
            ],
            "configuration": daemon.reloads.json,
            "auth": auth(),
            "certificates": .array(daemon.tls.flatMap { $0.json() }),
            "fetch": fetches(tally.fetches),
            "clients": clients(),
            "herds": .array(herds()), "canaries": .array(canaries()),
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
            ], "cluster": daemon.cluster.map { ["name": .string($0.name)] },
        ]
    }

    /// This node's slow readers; nil while they are not known.
    private func slowReaders() async -> Int? {
        let rollouts = daemon.hub.propagation
        let ages = daemon.scopes.compactMap { scope in
            rollouts.propagation(of: scope).map { (scope, age: Duration.seconds($0.ageSeconds)) }
        }
        return await daemon.slowReaders.count(ages, at: stalecast_monotonic_ns()) { scope in
            await daemon.edge.streamCounts(of: scope).unread
        }
    }

    /// The member `auth`: what Edge asks of callers, how many requests were refused for their credentials at both
    /// listeners, and how many would have been where `auth.mode` only observes.
    private func auth() -> JSONValue {
        let refusals = daemon.access.refusals
        let refused = refusals.filter(\.key.isEnforced).values.reduce(0) { $0 + $1.count }
        let all = refusals.values.reduce(0) { $0 + $1.count }
        return [
            "mode": .string(daemon.edge.accessMode.rawValue), "refused": .int(refused), "observed": .int(all - refused),
        ]
    }

    private func scopes() -> [JSONValue] {
        daemon.scopes.map { scope in
            let current = daemon.store.currentTemplates[scope]
            let plan = daemon.releasePlans.first { $0.scope == scope }
            var policy = plan?.policy.json.object
            policy?["default"] = plan?.isStagedByDefault == true ? "staged" : "instant"
            return [
                "project": .string(scope.project.description), "namespace": .string(scope.namespace.description),
                "versionNumber": .string(String(current?.version ?? 0)),
                "etag": current.map { .string($0.etag) },
                "updateTime": current.map { .string($0.metadata.updateTime.description) },
                "updateType": current.map { .string($0.metadata.updateType.rawValue) },
                "release": daemon.store.release(of: scope).map { release in
                    [
                        "versionNumber": .string(String(release.version)), "state": .string(release.state.rawValue),
                        "percent": .double(Double(release.covered) / 100),
                    ]
                }, "releasePolicy": policy.map(JSONValue.object),
            ]
        }
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
            [
                "project": .string(topic.scope.project.description),
                "namespace": .string(topic.scope.namespace.description),
                "latestTemplateVersionNumber": .string(String(topic.latest?.version ?? 0)),
                "cursor": topic.latest.map {
                    .string(Cursor(epoch: daemon.store.epoch, sequence: $0.sequence).description)
                },
            ]
        }
        return [
            "name": .string(name.description), "scopes": .array(scopes),
            "keys": .array(topics[0].keys.map { .string("\($0)") }),
            "subscribers": .counts(Transport.allCases.map { ($0.rawValue, presence.count(name, $0)) }),
        ]
    }
}

extension StatusReport {
    /// `{"known","live","names","samplingRate","reports":{"fetched","active","failed"},"reportsRefused"}`.
    func clients() -> JSONValue {
        let (figures, claims) = (daemon.hub.propagation.figures, daemon.hub.propagation.claims)
        let reports = ClientReport.State.allCases.map { ($0.rawValue, claims.counted[$0] ?? 0) }
        return [
            "known": .int(figures.known), "live": .int(figures.present), "names": .bool(figures.keepsNames),
            "samplingRate": .double(1 / Double(figures.weight)), "bytes": .int(figures.byteCount),
            "reports": .counts(reports), "reportsRefused": .int(claims.refused.values.reduce(0, +)),
        ]
    }

    /// Scopes with a budget: `{"project","namespace","windowMs","subscribers","configuredBudget","budget",…}`.
    func herds() -> [JSONValue] {
        daemon.scopes.compactMap { scope in
            guard let herd = daemon.hub.herd(of: scope) else { return nil }
            var object = herd.json.object ?? [:]
            object["project"] = .string(scope.project.description)
            object["namespace"] = .string(scope.namespace.description)
            return .object(object)
        }
    }

    /// Facts that our own subscribers saw last: `{"project","namespace","versionNumber","received","fetched"}`, in
    /// seconds.
    func canaries() -> [JSONValue] {
        daemon.edge.observations.sorted { $0.key < $1.key }.map { scope, seen in
            [
                "project": .string(scope.project.description), "namespace": .string(scope.namespace.description),
                "versionNumber": .string(String(seen.version)),
                "received": seen.received.map(JSONValue.double) ?? .null,
                "fetched": seen.fetched.map(JSONValue.double) ?? .null,
            ]
        }
    }

    /// `{"health","states","inFlight","waiting","delivered","failed",…}`.
    func webhooks() async -> JSONValue {
        let delivery = daemon.webhooks.delivery
        let tally = await delivery.tally()
        return [
            "health": .string(delivery.failure.map { "degraded: acknowledgements cannot be written: \($0)" } ?? "ok"),
            "states": .counts(tally.targets.sorted { $0.key < $1.key }.map { ($0, $1) }),
            "inFlight": .int(tally.underWay.values.reduce(0, +)),
            "waiting": .int(tally.waiting), "delivered": .int(tally.delivered), "failed": .int(tally.failed),
            "coalesced": .int(tally.coalesced), "deadLetters": .int(tally.deadLetters),
            "longestLag": .int(tally.longestLag), "oldestPendingSeconds": .double(tally.oldestPending),
        ]
    }

    /// The member `fetch`: answers by state, what the cache holds and how often it served.
    func fetches(_ tally: FetchTally) -> JSONValue {
        let states = FetchState.allCases.map { state in
            (state.rawValue, FetchDialect.allCases.reduce(0) { $0 + tally.answered($1, state) })
        }
        let renderings = daemon.served.renderings
        return [
            "answered": .int(tally.total), "states": .counts(states),
            "refused": .int(tally.refused.values.reduce(0, +)), "bytes": .int(tally.bytes),
            "cacheHits": .int(tally.cacheHits), "rendered": .int(tally.rendering.count),
            "renderings": .int(renderings.count), "renderingBytes": .int(renderings.byteCount),
            "installations": .int(tally.installations.values.reduce(0, +)),
        ]
    }

    /// The member `sources`: one object for each scope that is fed.
    func sources() -> [JSONValue] {
        let now = ContinuousClock.now
        return daemon.sources.watchers.map { $0.status.json(at: now, serve: daemon.sources.serving(of: $0.scope)) }
    }
}

extension SourceStatus {
    /// Ages and pauses in seconds. Members that say nothing are left out: no `error` means that all is well.
    ///
    /// - Parameter serve: `full` or `notify`.
    func json(at now: ContinuousClock.Instant, serve: String) -> JSONValue {
        [
            "project": .string(scope.project.description), "namespace": .string(scope.namespace.description),
            "kind": .string(kind.rawValue), "place": .string(place), "serve": .string(serve),
            "ageSeconds": .double(age(at: now).roundedSeconds), "looks": .int(counts.polls),
            "lastLook": lastPoll.map { .string($0.time.description) },
            "lastSuccess": lastSuccess.map { .string($0.time.description) },
            "lastChange": lastChange.map { .string($0.description) },
            "originVersionNumber": originVersion.map { .string(String($0)) },
            "nextLookSeconds": nextPollAt.map { .double(max(.zero, $0 - now).roundedSeconds) },
            "adopted": .int(counts.adopted), "triggers": .int(counts.triggers),
            "fenceTimeouts": .int(counts.fenceTimeouts),
            "error": failing.map { failing in
                [
                    "reason": .string(failing.problem.reason.rawValue),
                    "message": .string(failing.problem.description), "failures": .int(failing.count),
                    "since": .string(failing.since.description),
                ]
            },
            "stream": listening.map { ["open": .bool($0.isOpen), "problem": $0.problem.map(JSONValue.string)] },
        ]
    }
}

extension JSONValue {
    fileprivate static func counts(_ counts: [(String, Int)]) -> JSONValue {
        .object(counts.reduce(into: JSONObject()) { $0[$1.0] = .int($1.1) })
    }
}

extension Duration {
    /// Seconds, rounded to the millisecond.
    fileprivate var roundedSeconds: Double { (self / .milliseconds(1)).rounded() / 1000 }
}
