package import StalecastWire

/// What a project's `triggers` needs of the daemon. Both closures are called on any thread and must not block.
package struct TriggerDependencies: Sendable {
    /// Whether the credentials a request shows are worth reading its body for.
    package var admits: @Sendable (TriggerRequest) -> Bool
    /// Takes the request's events. The body is as received, inflated.
    package var take: @Sendable (TriggerRequest, _ body: [UInt8]) -> TriggerReply

    package init(
        admits: @escaping @Sendable (TriggerRequest) -> Bool,
        take: @escaping @Sendable (TriggerRequest, _ body: [UInt8]) -> TriggerReply
    ) {
        self.admits = admits
        self.take = take
    }

    /// A daemon none of whose scopes can be triggered: admits nobody, and tells the holder of the control token.
    package static let none = TriggerDependencies(
        admits: { _ in false },
        take: { _, _ in .notFound("No scope of this project has a source that could look; configure one in sources.") })
}

/// A request to a project's `triggers`.
package struct TriggerRequest: Sendable {
    package let request: ControlRequest
    /// nil when the path names no project that is served.
    package let project: ProjectID?
    /// Whether the control token was shown.
    package let isOperator: Bool
}

/// How a request to `triggers` ends.
package enum TriggerReply: Sendable, Hashable {
    /// Everything in it was taken; one element per event. `isLooking`: at least one source looks because of it.
    case taken(events: [JSONValue], isLooking: Bool)
    /// The same answer as for a missing token, whatever is wrong.
    case unauthenticated
    case notFound(String)
    /// 400 or 415, and a sentence for the sender.
    case malformed(status: Int, String)
}
