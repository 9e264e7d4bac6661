package import StalecastWire

/// What is known of one webhook's deliveries.
package struct DeliveryStatus: Sendable {
    package let state: WebhookState
    package let failures: Int
    package let nextAttemptAt: Timestamp?
    package let scopes: [ScopeStatus]

    package struct ScopeStatus: Sendable {
        package let scope: Scope
        package let acknowledged: VersionNumber
        package let current: VersionNumber?
        /// Versions not acknowledged.
        package let lag: Int64
        package let isInFlight: Bool
    }

    /// The member `delivery` of the API's webhook.
    package var json: JSONValue {
        var object: JSONObject = ["consecutiveFailures": .int(failures)]
        if let nextAttemptAt { object["nextAttemptTime"] = .string(nextAttemptAt.description) }
        object["scopes"] = .array(
            scopes.map { status in
                var scope: JSONObject = [
                    "namespace": .string(status.scope.namespace.description),
                    "acknowledgedVersion": .string(String(status.acknowledged)),
                ]
                if let current = status.current { scope["currentVersion"] = .string(String(current)) }
                scope["lag"] = .int(status.lag)
                scope["inFlight"] = .bool(status.isInFlight)
                return .object(scope)
            })
        return .object(object)
    }
}
