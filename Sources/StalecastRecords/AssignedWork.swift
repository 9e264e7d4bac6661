import Synchronization

/// The assignments that this node works on now.
package final class AssignedWork: Sendable {
    /// The work of an assignment, under the token with which this node has it.
    package typealias Body = @Sendable (AssignmentLease.Token) async -> Void

    private struct State {
        var bodies: [String: Body] = [:]
        var tasks: [String: Task<Void, Never>] = [:]
        var webhooks: AssignmentService.Worker?
        var webhookNames: Set<String> = []
        var isDelivering = true
    }

    private let state = Mutex(State())

    package init() {}

    /// Work that begins when its assignment becomes this node's, and is cancelled when it is not any more.
    package func set(_ bodies: [String: Body]) { state.withLock { $0.bodies = bodies } }

    /// Worker of the assignments of webhooks, until ``endWebhooks()``.
    package func set(webhooks: AssignmentService.Worker, _ names: Set<String>) {
        state.withLock { ($0.webhooks, $0.webhookNames) = (webhooks, names) }
    }

    package func endWebhooks() { state.withLock { $0.isDelivering = false } }

    /// All assignments that this node wants.
    package var names: Set<String> {
        state.withLock { Set($0.bodies.keys).union($0.isDelivering ? $0.webhookNames : []) }
    }

    private func webhooks(_ name: String) -> AssignmentService.Worker? {
        state.withLock { $0.webhookNames.contains(name) ? $0.webhooks : nil }
    }

    package var worker: AssignmentService.Worker {
        AssignmentService.Worker(
            begin: { [self] name, token in
                if let webhooks = webhooks(name) { return webhooks.begin(name, token) }
                state.withLock { state in
                    // Cancelled when the assignment is given up or lost; the former waits for it.
                    if let body = state.bodies[name] { state.tasks[name] = Task { await body(token) } }
                }
            },
            finish: { [self] name, token in
                if let webhooks = webhooks(name) { return await webhooks.finish(name, token) }
                let task = end(name)
                await task?.value
            },
            lost: { [self] name in
                if let webhooks = webhooks(name) { return webhooks.lost(name) }
                _ = end(name)
            })
    }

    private func end(_ name: String) -> Task<Void, Never>? {
        let task = state.withLock { $0.tasks.removeValue(forKey: name) }
        task?.cancel()
        return task
    }
}
