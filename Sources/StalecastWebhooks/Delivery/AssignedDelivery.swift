package import StalecastRecords
package import StalecastWire
import Synchronization

/// Delivery on one node of several: to the webhooks whose assignment is this node's, from where their last owner left
/// them, and so that the next one can go on. What is remembered of an assignment's webhooks is one document, written at
/// most each second.
package final class AssignedDelivery: Sendable {
    private struct Owned {
        let token: AssignmentLease.Token
        let since = Timestamp.now()
        /// nil until what the last owner has left is read.
        var image: DeliveryImage?
        /// Changes of the image so far, and how many of them are written.
        var changes = 0
        var written = 0
    }

    private struct State {
        /// All of the registry's, by assignment.
        var webhooks: [String: [WebhookID: Webhook]] = [:]
        var owned: [String: Owned] = [:]

        func ids(_ assignment: String) -> Set<WebhookID> { Set((webhooks[assignment] ?? [:]).keys) }
    }

    private let delivery: WebhookDelivery
    private let epoch: Epoch
    private let assignments: AssignmentService
    private let state = Mutex(State())
    private let wakes = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    /// Whether ``run()`` writes; no other writer may then.
    private let isFollowing = Atomic(false)
    /// Longest time that a caller waits for a write.
    private let patience: Duration
    /// Longest attempt, whatever the webhook's timeout says: it must fit into what is left of the lease of 45 s at any
    /// time between two renewals, else it would never begin.
    package static let longestAttempt = Duration.seconds(30)

    /// - Parameters:
    ///   - delivery: started, or to be started, without webhooks.
    ///   - epoch: the store's.
    ///   - patience: longest time that the end of an assignment waits for the write of what the next owner goes on from.
    ///     Without that write it repeats messages.
    package init(
        _ delivery: WebhookDelivery, epoch: Epoch, _ assignments: AssignmentService, patience: Duration = .seconds(2)
    ) {
        self.delivery = delivery
        self.epoch = epoch
        self.assignments = assignments
        self.patience = patience
        delivery.share { id, timeout in
            assignments.permit(id.assignment, timeout) != nil
        } onJournal: { [weak self] entries in
            self?.take(entries)
        }
    }

    // MARK: Facts

    /// The registry's webhooks, once, before it is told of changes.
    package func begin(with webhooks: [Webhook]) { for webhook in webhooks { take(.installed(webhook)) } }

    package func take(_ change: WebhookRegistry.Change) {
        // Within the lock: the engine's thread hears in the order in which it was decided.
        state.withLock { state in
            switch change {
            case .installed(var webhook):
                webhook.since = webhook.since.filter { $1.epoch == epoch }
                webhook.limits.timeout = min(webhook.limits.timeout, Self.longestAttempt)
                let assignment = webhook.id.assignment
                let before = state.webhooks[assignment, default: [:]].updateValue(webhook, forKey: webhook.id)
                guard let owned = state.owned[assignment], let image = owned.image else { return }
                // One that this node only hears of now may have been there long before.
                if before == nil, image.ids.contains(webhook.id) || webhook.createdAt < owned.since {
                    delivery.adopt([webhook], image)
                } else {
                    delivery.install(webhook)
                }
            case .removed(let id):
                state.webhooks[id.assignment]?[id] = nil
                delivery.remove(id)
            }
        }
    }

    /// The assignment is this node's.
    package func begin(_ assignment: String, _ token: AssignmentLease.Token) {
        state.withLock { $0.owned[assignment] = Owned(token: token) }
        wakes.continuation.yield()
    }

    /// Drops an assignment that may be another node's.
    package func lost(_ assignment: String) {
        state.withLock { state in
            state.owned[assignment] = nil
            delivery.drop(state.ids(assignment))
        }
    }

    /// Begins nothing more for the assignment's webhooks, waits for what is under way, and leaves the rest to the next
    /// owner.
    package func finish(_ assignment: String, _ token: AssignmentLease.Token) async {
        await delivery.retire(state.withLock { $0.ids(assignment) })
        _ = await settle(assignment, token)
        state.withLock { state in
            guard state.owned[assignment]?.token == token else { return }
            state.owned[assignment] = nil
            delivery.drop(state.ids(assignment))
        }
    }

    /// The token under which this node delivers to an assignment's webhooks; nil: it does not, or not yet.
    package func delivers(_ assignment: String) -> AssignmentLease.Token? {
        state.withLock { state in state.owned[assignment].flatMap { $0.image == nil ? nil : $0.token } }
    }

    /// Writes what was decided for an assignment's webhooks until now, so that the next owner knows it.
    ///
    /// - Returns: false when that is not known, or the ownership has ended.
    package func settle(_ assignment: String, _ token: AssignmentLease.Token) async -> Bool {
        let wanted = state.withLock { state -> Int? in
            guard state.owned[assignment]?.token == token, state.owned[assignment]?.image != nil else { return nil }
            // A change without content: a write that begins after this one covers all that was decided before.
            state.owned[assignment]?.changes += 1
            return state.owned[assignment]?.changes
        }
        guard let wanted else { return false }
        wakes.continuation.yield()
        let end = ContinuousClock.now + patience
        while let owned = state.withLock({ $0.owned[assignment] }), owned.token == token, ContinuousClock.now < end {
            if owned.written >= wanted { return true }
            if !isFollowing.load(ordering: .relaxed) {
                await write(assignment)
                return state.withLock {
                    $0.owned[assignment].map { $0.token == token && $0.written >= wanted } ?? false
                }
            }
            // Cancelled: it is not known.
            guard (try? await Task.sleep(for: .milliseconds(5))) != nil else { break }
        }
        return false
    }

    /// Returns when no assignment is this node's, or that took too long.
    package func untilIdle(within time: Duration) async {
        let end = ContinuousClock.now + time
        while state.withLock({ !$0.owned.isEmpty }), ContinuousClock.now < end {
            // Cancelled: another service failed, and leases end by themselves.
            guard (try? await Task.sleep(for: .milliseconds(10))) != nil else { return }
        }
    }

    private func take(_ entries: [JournalEntry]) {
        state.withLock { state in
            for entry in entries {
                let assignment = entry.webhook.assignment
                guard state.owned[assignment]?.image != nil else { continue }
                state.owned[assignment]?.image?.take(entry)
                state.owned[assignment]?.changes += 1
            }
        }
    }

    // MARK: What is kept

    /// Takes over what is this node's and writes what is changed, until its task is cancelled.
    package func run() async {
        isFollowing.store(true, ordering: .relaxed)
        defer { isFollowing.store(false, ordering: .relaxed) }
        await withDiscardingTaskGroup { group in
            group.addTask {
                // Cancelled: the loop ends.
                while (try? await Task.sleep(for: .seconds(1))) != nil { self.wakes.continuation.yield() }
            }
            for await _ in wakes.stream {
                for assignment in state.withLock({ $0.owned.filter { $1.image == nil }.keys.sorted() }) {
                    await adopt(assignment)
                }
                // One after the other: an older document never comes after a newer one.
                let changed = state.withLock { $0.owned.filter { $1.written < $1.changes }.keys.sorted() }
                // Cancelled: the end of an assignment writes it.
                for assignment in changed where !Task.isCancelled { await write(assignment) }
            }
            group.cancelAll()
        }
    }

    /// Takes over an assignment. If its document cannot be read, nothing is sent, and the read is repeated.
    private func adopt(_ assignment: String) async {
        guard let token = state.withLock({ $0.owned[assignment]?.token }) else { return }
        let kept: [UInt8]?
        do { kept = try await assignments.kept(of: assignment) } catch { return }
        let image = kept.map { DeliveryImage(document: $0, epoch: epoch) } ?? DeliveryImage()
        state.withLock { state in
            guard state.owned[assignment]?.token == token, state.owned[assignment]?.image == nil else { return }
            state.owned[assignment]?.image = image
            delivery.adopt(Array((state.webhooks[assignment] ?? [:]).values), image)
        }
    }

    /// Waits for the put also when its caller is cancelled: else the next one could be sent, and be done, before it.
    private func write(_ assignment: String) async { await Task { await self.put(assignment) }.value }

    private func put(_ assignment: String) async {
        guard let owned = state.withLock({ $0.owned[assignment] }), let image = owned.image else { return }
        do {
            // An ownership that has ended is told by `lost`.
            let document = image.document(epoch: epoch)
            guard try await assignments.keep(document, of: assignment, token: owned.token) else { return }
        } catch {
            // It stays changed, and is tried again.
            return
        }
        state.withLock { state in
            // The next put writes the changes that came during this one.
            if state.owned[assignment]?.token == owned.token { state.owned[assignment]?.written = owned.changes }
        }
    }
}
