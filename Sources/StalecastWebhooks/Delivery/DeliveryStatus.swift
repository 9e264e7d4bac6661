package import StalecastWire

package struct DeliveryStatus: Sendable {
    package let state: WebhookState
    package let failures: Int
    package let nextAttemptAt: Timestamp?
    /// The last failed attempt of this run; nil when there was none, or only one to another receiver.
    package let lastFailure: Failure?
    package let scopes: [ScopeStatus]

    /// Failed attempt: its reason, and when it began.
    package struct Failure: Sendable {
        package let time: Timestamp
        package let result: AttemptResult

        /// The number of an answer's characters that are kept: enough to tell what is wrong.
        static let shownOfResponse = 200
    }

    package struct ScopeStatus: Sendable {
        package let scope: Scope
        package let acknowledged: VersionNumber
        package let current: VersionNumber?
        /// Versions not acknowledged.
        package let lag: Int64
        /// Messages that are to be sent, at most.
        package let owed: Int64
        package let isInFlight: Bool
    }

    /// The member `delivery` of the API's webhook.
    package var json: JSONValue {
        var object: JSONObject = ["consecutiveFailures": .int(failures)]
        if let nextAttemptAt { object["nextAttemptTime"] = .string(nextAttemptAt.description) }
        if let lastFailure {
            var failure = lastFailure.result.json(atMost: Failure.shownOfResponse)
            failure["time"] = .string(lastFailure.time.description)
            object["lastFailure"] = .object(failure)
        }
        object["scopes"] = .array(
            scopes.map { status in
                var scope: JSONObject = [
                    "namespace": .string(status.scope.namespace.description),
                    "acknowledgedVersion": .string(String(status.acknowledged)),
                ]
                if let current = status.current { scope["currentVersion"] = .string(String(current)) }
                scope["lag"] = .int(status.lag)
                scope["owed"] = .int(status.owed)
                scope["inFlight"] = .bool(status.isInFlight)
                return .object(scope)
            })
        return .object(object)
    }
}
