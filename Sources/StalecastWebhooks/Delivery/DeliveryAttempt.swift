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
        var object: JSONObject = ["kind": .string(kind), "startTime": .string(startedAt.description)]
        if !messageID.isEmpty { object["messageId"] = .string(messageID) }
        if let scope { object["namespace"] = .string(scope.namespace.description) }
        if let version { object["versionNumber"] = .string(String(version)) }
        object["attempt"] = .int(number)
        for (name, value) in result.json().members { object[name] = value }
        object["phasesMs"] = phases.json
        if let nextAt { object["nextAttemptTime"] = .string(nextAt.description) }
        return .object(object)
    }
}

extension OutboundOutcome.Phases {
    fileprivate var json: JSONValue {
        let parts = [
            ("queue", queue), ("dns", dns), ("connect", connect), ("tls", tls), ("server", server), ("total", total),
        ]
        var object = JSONObject()
        for (name, microseconds) in parts { object[name] = .double(Double(microseconds) / 1000) }
        return .object(object)
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
        var object: JSONObject = [
            "id": .string(String(id)), "namespace": .string(scope.namespace.description),
            "versionNumber": .string(String(version)), "reason": .string(reason), "attempts": .int(attempts),
        ]
        if let lastStatus { object["lastStatus"] = .int(lastStatus) }
        object["moveTime"] = .string(movedAt.description)
        return .object(object)
    }
}
