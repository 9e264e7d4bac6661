import CLinux
import StalecastLoad
import StalecastWire
import Synchronization

/// The webhooks of a load: registered before, removed after, and found again when a load was killed.
final class WebhookRegistrations: Sendable {
    private let api: WebhookAPI
    private let progress: LoadProgress
    private let ids = Mutex<[String]>([])

    /// Description by which leftovers are found.
    static let description = "stalecast load webhooks"
    /// Requests to Control at once.
    private static let width = 16

    init(api: WebhookAPI, progress: LoadProgress) {
        self.api = api
        self.progress = progress
    }

    /// Registers every listener; how long it took, in seconds.
    func register(_ listeners: [WebhookPlan.Listener], _ plan: WebhookPlan) async throws -> Double {
        let start = stalecast_monotonic_ns()
        try await forEach(listeners, "registered") { listener in
            let settings: JSONValue = [
                "url": .string(listener.url), "mode": .string(plan.mode), "description": .string(Self.description),
            ]
            do throws(CommandFailure) {
                let id = try await self.api.create(settings)["id"]?.string
                if let id { self.ids.withLock { $0.append(id) } }
            } catch {
                throw Self.explained(error)
            }
        }
        return Double(stalecast_monotonic_ns() - start) / 1e9
    }

    /// Removes what a load that was killed left behind.
    func removeLeftovers() async throws {
        let leftovers = try await api.list().filter { $0["description"]?.string == Self.description }
        try await remove(leftovers.compactMap { $0["id"]?.string })
    }

    /// Removes the webhooks of this load; what went wrong, nil when nothing did.
    func removeAll() async -> CommandFailure? {
        do {
            try await remove(ids.withLock { $0 })
            return nil
        } catch {
            return LoadEnding.failure(error)
        }
    }

    private func remove(_ ids: [String]) async throws {
        try await forEach(ids, "removed") { [api] id in
            do throws(CommandFailure) {
                try await api.delete(id)
            } catch {
                // Another process removed it already.
                guard error.status == .notFound else { throw error }
            }
        }
    }

    private func forEach<Element: Sendable>(
        _ elements: [Element], _ label: String, _ body: @escaping @Sendable (Element) async throws -> Void
    ) async throws {
        var done = 0
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (position, element) in elements.enumerated() {
                if position >= Self.width {
                    try await group.next()
                    done += 1
                    progress.show(label, done, of: elements.count)
                }
                group.addTask { try await body(element) }
            }
            try await group.waitForAll()
        }
    }

    private static func explained(_ failure: CommandFailure) -> CommandFailure {
        guard failure.sentence.contains("allowed") else { return failure }
        return CommandFailure(
            failure.status, failure.sentence, problems: failure.problems,
            advice: "The receivers listen on loopback: start the daemon with "
                + "STALECAST_WEBHOOKS_ALLOWED_ADDRESSES=127.0.0.0/8.")
    }
}
