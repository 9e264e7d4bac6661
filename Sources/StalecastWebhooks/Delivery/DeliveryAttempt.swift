package import StalecastOutbound
package import StalecastWire

/// One request that was sent, or could not be, and what came of it.
package struct DeliveryAttempt: Sendable, Hashable {
    package let webhook: WebhookID
    /// Nil for messages that are about no scope.
    package let scope: Scope?
    package let version: VersionNumber?
    /// `stale`, `test`, or an operational event's type.
    package let kind: String
    /// Empty when no message could be made.
    package let messageID: String
    /// Number of the attempt, from 1, per message.
    package let number: Int
    package let startedAt: Timestamp
    /// Nil without an answer.
    package let status: Int?
    /// `2xx`…`5xx`, or why there was no answer.
    package let outcome: String
    /// Reason of the failure, for the owner; nil for success.
    package let problem: String?
    /// The start of the answer's body, at most ``maxResponseBytes``.
    package let response: String
    package let phases: OutboundOutcome.Phases
    /// Time of the next attempt; nil for never, or at once.
    package let nextAt: Timestamp?

    package static let maxResponseBytes = 1024

    /// JSON that the API shows; durations in milliseconds.
    package var json: JSONValue {
        var object: JSONObject = ["kind": .string(kind), "startTime": .string(startedAt.description)]
        if !messageID.isEmpty { object["messageId"] = .string(messageID) }
        if let scope { object["namespace"] = .string(scope.namespace.description) }
        if let version { object["versionNumber"] = .string(String(version)) }
        object["attempt"] = .int(number)
        object["outcome"] = .string(outcome)
        if let status { object["status"] = .int(status) }
        if let problem { object["problem"] = .string(problem) }
        if !response.isEmpty { object["response"] = .string(response) }
        object["phasesMs"] = phases.json
        if let nextAt { object["nextAttemptTime"] = .string(nextAt.description) }
        return .object(object)
    }
}

extension DeliveryAttempt {
    /// Makes an attempt. One without a scope and a version belongs to a message that is about no version.
    init(
        webhook: WebhookID, scope: Scope? = nil, version: VersionNumber? = nil, kind: String, messageID: String,
        number: Int = 1, startedAt: Timestamp, _ result: AttemptResult, phases: OutboundOutcome.Phases,
        nextAt: Timestamp? = nil
    ) {
        self.init(
            webhook: webhook, scope: scope, version: version, kind: kind, messageID: messageID, number: number,
            startedAt: startedAt, status: result.status, outcome: result.name, problem: result.problem,
            response: result.response, phases: phases, nextAt: nextAt)
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
    package let id: Int64
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

    init(
        id: Int64 = 0, scope: Scope, version: VersionNumber, sequence: CommitSequence, reason: String, attempts: Int,
        lastStatus: Int?, movedAt: Timestamp
    ) {
        self.id = id
        self.scope = scope
        self.version = version
        self.sequence = sequence
        self.reason = reason
        self.attempts = attempts
        self.lastStatus = lastStatus
        self.movedAt = movedAt
    }

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
