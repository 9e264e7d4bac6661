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
        private static let shownOfResponse = 200

        fileprivate var json: JSONValue {
            var failure = result.json(atMost: Self.shownOfResponse)
            failure["time"] = .described(time)
            return .object(failure)
        }
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

        fileprivate var json: JSONValue {
            [
                "namespace": .described(scope.namespace), "acknowledgedVersion": .described(acknowledged),
                "currentVersion": .described(current), "lag": .int(lag), "owed": .int(owed),
                "inFlight": .bool(isInFlight),
            ]
        }
    }

    /// The member `delivery` of the API's webhook.
    package var json: JSONValue {
        [
            "consecutiveFailures": .int(failures), "nextAttemptTime": .described(nextAttemptAt),
            "lastFailure": lastFailure?.json, "scopes": .array(scopes.map(\.json)),
        ]
    }
}
