package import StalecastHub
package import StalecastRecords
import StalecastWire

/// Messages that are sent by hand, on their way to the subscribers of all nodes of a cluster: records
/// `message/<chance>`, which live for a few seconds.
package final class MessageRelay: Sendable {
    package static let kind = "message"
    /// A node whose watch broke off is told when it has another within this time.
    private static let lifetime = Duration.seconds(5)

    private let membership: Membership

    package init(_ membership: Membership) { self.membership = membership }

    /// Sends the messages of all nodes to a hub's subscribers, from now on; those of this node as well.
    package func attach(to hub: Hub) async {
        await membership.informer.observe(Self.kind) { change in
            // What is no message is ignored.
            if case .put(let record) = change, let message = Self.message(record.value) { hub.send(message) }
        }
    }

    /// - Returns: false when it is not known whether all nodes are told.
    func send(_ request: MessageRequest, in project: ProjectID) async -> Bool {
        do throws(LogError) {
            let lease = try await membership.grant(Self.lifetime)
            let name = RecordName(Self.kind, Epoch.random().description)
            let outcome = try await membership.informer.put(
                Self.record(of: request, in: project), to: name, over: nil, lease: lease)
            if case .done = outcome { return true }
            return false
        } catch {
            return false
        }
    }

    private static func record(of request: MessageRequest, in project: ProjectID) -> [UInt8] {
        var message: JSONObject = ["data": .object(request.data)]
        switch request.target {
        case .topic(let name): message["topic"] = .string(name.description)
        case .condition(let condition): message["condition"] = .string("\(condition)")
        }
        return JSONValue.object(["project": .string(project.description), "message": .object(message)]).encoded()
    }

    /// nil for what ``record(of:in:)`` did not write.
    private static func message(_ record: [UInt8]) -> DataMessage? {
        guard let document = JSONValue.ifValid(record), let name = document["project"]?.string,
            let project = try? ProjectID(name), let request = try? MessageRequest(record)  // unreadable record: ignored
        else { return nil }
        return DataMessage(target: request.target, in: project, data: request.data)
    }
}
