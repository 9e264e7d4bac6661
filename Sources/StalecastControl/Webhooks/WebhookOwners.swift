package import StalecastRecords
package import StalecastWebhooks
import StalecastWire

/// Answers what is asked about webhooks by the node that delivers to them: this one, or another that is asked.
package final class WebhookOwners: Sendable {
    private let membership: Membership
    private let delivery: AssignedDelivery
    private let service: WebhookService

    /// - Parameter service: speaks for this node alone.
    package init(_ membership: Membership, _ delivery: AssignedDelivery, _ service: WebhookService) {
        (self.membership, self.delivery, self.service) = (membership, delivery, service)
    }

    private var assignments: AssignmentService { membership.assignments }
    private var peerRequests: PeerRequests { membership.peerRequests }

    /// Time for an answer; for a test it comes on top of the receiver's own time.
    private static let patience = Duration.seconds(5)
    /// Time for the state of webhooks, without which they are listed as well.
    private static let statusPatience = Duration.seconds(3)
    private static let pause = Duration.milliseconds(100)

    private enum Reply {
        case answer(JSONValue)
        case problem(RegistryProblem)
        /// The assignment is not that node's, or may have moved to another node.
        case moved
        case silent(node: String)
    }

    // MARK: Asking

    /// Puts a question to the node that delivers to its webhook, which may be this one.
    func ask(_ question: WebhookQuestion) async throws(RegistryProblem) -> JSONValue {
        let assignment = question.webhook.assignment
        let end =
            ContinuousClock.now + Self.patience + (question.isTest ? service.timeout(of: question.webhook) : .zero)
        var why = RegistryProblem.elsewhere("no node delivers to this webhook now; one takes it over within 45 seconds")
        while ContinuousClock.now < end {
            switch try await reply(to: question, assignment, within: end - ContinuousClock.now) {
            case .answer(let answer): return answer
            // A node may hear of a new webhook a moment later.
            case .problem(.notFound(let id)): why = .notFound(id)
            case .problem(let problem): throw problem
            case .silent(let node): why = Self.silent(node)
            case .moved: break
            }
            // Cancelled: no caller waits for the answer.
            guard (try? await Task.sleep(for: Self.pause)) != nil else { break }
        }
        throw why
    }

    private static func silent(_ node: String) -> RegistryProblem {
        .elsewhere(
            "node \(node), which delivers to this webhook, does not answer; what was asked of it may be done all the "
                + "same")
    }

    private func reply(
        to question: WebhookQuestion, _ assignment: String, within time: Duration
    ) async throws(RegistryProblem) -> Reply {
        if let token = owned(assignment) { return await reply(to: question, assignment, token, room: nil) }
        guard let (mark, node) = await holder(of: assignment), mark != assignments.mark else { return .moved }
        let answer: JSONValue?
        do throws(LogError) { answer = try await peerRequests.ask(mark, question.json, within: time) } catch {
            throw .away(cause: error.description)
        }
        guard let answer else { return .silent(node: node) }
        if let problem = answer["problem"] { return .problem(RegistryProblem(json: problem)) }
        return answer["answer"].map { .answer($0) } ?? .moved
    }

    private func owned(_ assignment: String) -> AssignmentLease.Token? {
        delivery.delivers(assignment).flatMap { $0 == assignments.owned(assignment) ? $0 : nil }
    }

    private func holder(of assignment: String) async -> (mark: String, node: String)? {
        await membership.informer.record(RecordName(AssignmentService.kind, assignment)).map {
            (String(decoding: $0.value, as: UTF8.self), AssignmentService.holder($0.value))
        }
    }

    // MARK: Answering

    /// Answers other nodes until its task is cancelled. Once.
    package func run() async { await peerRequests.run { [self] in await answer($0) } }

    private func answer(_ asked: JSONValue) async -> JSONValue {
        if let ids = asked["statuses"]?.array?.compactMap({ $0.string.flatMap { WebhookID($0) } }) {
            return await ownStatuses(of: ids, room: PeerRequests.maxBytes)
        }
        guard let question = WebhookQuestion(json: asked) else {
            return ["problem": RegistryProblem.notNow("this node does not know what it was asked; upgrade it").json]
        }
        let assignment = question.webhook.assignment
        guard let token = owned(assignment) else { return ["moved": true] }
        // The rest is for what stands around it.
        switch await reply(to: question, assignment, token, room: PeerRequests.maxBytes - 64) {
        case .answer(let answer): return ["answer": answer]
        case .problem(let problem): return ["problem": problem.json]
        case .moved, .silent: return ["moved": true]
        }
    }

    private func reply(
        to question: WebhookQuestion, _ assignment: String, _ token: AssignmentLease.Token, room: Int?
    ) async -> Reply {
        let answer: JSONValue
        do throws(RegistryProblem) { answer = try await service.perform(question, room: room) } catch {
            return .problem(error)
        }
        // What is promised here must be done by the next owner, too.
        if question.isPromise, !(await delivery.settle(assignment, token)) { return .moved }
        return .answer(answer)
    }

    // MARK: How it goes

    /// ``WebhookService/status(of:)`` of the nodes that deliver, or `{"problem":…}`, a sentence.
    func statuses(of ids: [WebhookID]) async -> [WebhookID: JSONValue] {
        var asked: [String: (node: String, ids: [WebhookID])] = [:]
        var found: [WebhookID: JSONValue] = [:]
        for id in ids {
            let assignment = id.assignment
            if owned(assignment) != nil, let status = await service.status(of: id) {
                found[id] = status
            } else if let (mark, node) = await holder(of: assignment), mark != assignments.mark {
                asked[mark, default: (node, [])].ids.append(id)
            } else {
                found[id] = ["problem": "no node delivers to it at the moment"]
            }
        }
        return await withTaskGroup { group in
            for (mark, (node, ids)) in asked { group.addTask { [self] in await statuses(of: ids, at: mark, node) } }
            return await group.reduce(into: found) { $0.merge($1) { $1 } }
        }
    }

    /// Statuses of webhooks, as many at a time as fit into an answer.
    private func statuses(of ids: [WebhookID], at mark: String, _ node: String) async -> [WebhookID: JSONValue] {
        var found: [WebhookID: JSONValue] = [:]
        var why = "node \(node), which delivers to it, does not answer"
        let end = ContinuousClock.now + Self.statusPatience
        while ContinuousClock.now < end {
            let left = ids.filter { found[$0] == nil }
            let asked: JSONValue = ["statuses": .texts(left)]
            // Without etcd it is as if no node answered.
            let answer = (try? await peerRequests.ask(mark, asked, within: end - ContinuousClock.now)) ?? nil
            guard let members = answer?.object?.members else { break }
            for (name, status) in members {
                if let id = WebhookID(name), var object = status.object {
                    object["node"] = .string(node)
                    found[id] = .object(object)
                }
            }
            why = "node \(node) has not taken it over yet"
            if members.isEmpty || found.count == ids.count { break }
        }
        for id in ids where found[id] == nil { found[id] = ["problem": .string(why)] }
        return found
    }

    private func ownStatuses(of ids: [WebhookID], room: Int) async -> JSONValue {
        var object = JSONObject()
        var size = 2
        for id in ids where owned(id.assignment) != nil {
            guard let status = await service.status(of: id) else { continue }
            size += status.encoded().count + id.description.utf8.count + 4
            if size > room { break }
            object[id.description] = status
        }
        return .object(object)
    }
}
