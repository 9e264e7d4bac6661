import GRDB
package import StalecastWire

/// Log of sent messages with their senders; their content is not kept.
extension TemplateStore {
    /// Most messages of a project.
    package static let mostMessages = 300

    /// Stores a message that is about to be sent, and returns when that is durable. A failure is logged, and the
    /// message is sent anyway: the audit log has it.
    package func keep(_ message: SentMessage) async {
        do throws(StoreError) {
            try await write { db in
                try db.execute(
                    sql: "INSERT INTO message (project, time, record) VALUES (?, ?, ?)",
                    arguments: [
                        message.project.description, message.time.microseconds,
                        JSONValue.object(message.json).text(),
                    ])
                try db.execute(
                    sql: """
                        DELETE FROM message WHERE project = ?1 AND id <= (
                            SELECT id FROM message WHERE project = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)
                        """, arguments: [message.project.description, Self.mostMessages])
            }
        } catch {
            log(.warning, "a sent message could not be stored", ["error": error.description])
        }
    }

    /// The project's messages, newest first.
    package func messages(of project: ProjectID, limit: Int) async throws(StoreError) -> [SentMessage] {
        try await read { db in
            try Row.fetchAll(
                db, sql: "SELECT time, record FROM message WHERE project = ? ORDER BY id DESC LIMIT ?",
                arguments: [project.description, limit]
            ).map { SentMessage(try $0.record(), of: project, at: Timestamp(microseconds: $0["time"])) }
        }
    }
}

/// A message that was sent to a topic, without its data.
package struct SentMessage: Sendable, Hashable {
    package let project: ProjectID
    /// Name as its sender was told: `projects/demo/messages/1795…`.
    package let name: String
    package let time: Timestamp
    /// A topic, or a condition over topics.
    package let target: String
    /// Names of its data, sorted.
    package let keys: [String]
    package let sender: Proposal.Person

    package init(
        project: ProjectID, name: String, time: Timestamp, target: String, keys: [String], sender: Proposal.Person
    ) {
        (self.project, self.name, self.time) = (project, name, time)
        (self.target, self.keys, self.sender) = (target, keys, sender)
    }

    fileprivate init(_ record: JSONValue, of project: ProjectID, at time: Timestamp) {
        self.init(
            project: project, name: record["name"]?.string ?? "", time: time, target: record["target"]?.string ?? "",
            keys: (record["keys"]?.array ?? []).compactMap(\.string), sender: Proposal.Person(record["sender"]))
    }

    package var json: JSONObject {
        [
            "name": .string(name), "time": .string(time.description), "target": .string(target),
            "keys": .array(keys.map(JSONValue.string)), "sender": .object(sender.json),
        ]
    }
}
