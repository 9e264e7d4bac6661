package import StalecastOutbound
package import StalecastWire

/// One request that was sent or could not be sent, and its result.
package struct DeliveryAttempt: Sendable, Hashable {
    package let webhook: WebhookID
    /// Nil for messages that are about no scope.
    package var scope: Scope?
    package var version: VersionNumber?
    /// `stale`, `test`, or an operational event's type.
    package let kind: String
    /// Empty when no message could be made.
    package let messageID: String
    /// Number of the attempt, from 1, per message.
    package var number = 1
    package let startedAt: Timestamp
    package let result: AttemptResult
    package let phases: OutboundOutcome.Phases
    /// Time of the next attempt; nil for never, or at once.
    package var nextAt: Timestamp?

    /// JSON that the API shows; durations in milliseconds.
    package var json: JSONValue {
        var object: JSONObject = [
            "kind": .string(kind), "startTime": .described(startedAt),
            "messageId": messageID.isEmpty ? nil : .string(messageID), "namespace": .described(scope?.namespace),
            "versionNumber": .described(version), "attempt": .int(number),
        ]
        for (name, value) in result.json().members { object[name] = value }
        object["phasesMs"] = phases.json
        object["nextAttemptTime"] = .described(nextAt)
        return .object(object)
    }
}

extension OutboundOutcome.Phases {
    fileprivate var json: JSONValue {
        func milliseconds(_ microseconds: Int64) -> JSONValue { .double(Double(microseconds) / 1000) }
        return [
            "queue": milliseconds(queue), "dns": milliseconds(dns), "connect": milliseconds(connect),
            "tls": milliseconds(tls), "server": milliseconds(server), "total": milliseconds(total),
        ]
    }
}

/// A version that could not be delivered within its time, or that the receiver will never take.
package struct DeadLetter: Sendable, Hashable {
    /// Id of the row; 0 before it is written.
    package var id: Int64 = 0
    package let scope: Scope
    package let version: VersionNumber
    package let sequence: CommitSequence
    /// `exhausted`, `rejected`, or ``pruned``.
    package let reason: String
    package let attempts: Int
    package let lastStatus: Int?
    package let movedAt: Timestamp

    /// The store has removed the version before it could be sent.
    package static let pruned = "pruned"

    package var json: JSONValue {
        [
            "id": .described(id), "namespace": .described(scope.namespace), "versionNumber": .described(version),
            "reason": .string(reason), "attempts": .int(attempts), "lastStatus": lastStatus.map { .int($0) },
            "moveTime": .described(movedAt),
        ]
    }
}
