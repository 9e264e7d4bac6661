import StalecastHub
import StalecastWire

extension Scope {
    static let demo = Scope(project: try! ProjectID("demo"), namespace: .firebase)
    static let server = Scope(project: try! ProjectID("demo"), namespace: .firebaseServer)
}

extension TopicName {
    static let pay = try! TopicName("pay")
}

extension Epoch {
    static let test = Epoch("abcdefghijklmnopqrstuvwxyz")!
    static let other = Epoch("zzzzzzzzzzzzzzzzzzzzzzzzzz")!
}

extension TemplateChange {
    static func make(
        _ version: VersionNumber, sequence: CommitSequence? = nil, scope: Scope = .demo, keys: [String]? = ["welcome"],
        updateType: UpdateType = .incremental
    ) -> TemplateChange {
        let metadata = VersionMetadata(
            number: version, updateTime: Timestamp(microseconds: 1_000_000 * version.rawValue), updateType: updateType)
        return TemplateChange(
            scope: scope, sequence: sequence ?? CommitSequence(version.rawValue), metadata: metadata,
            etag: "etag-1-\(version)",
            changedKeys: keys)
    }
}

extension TopicBoard {
    static let bindings = [
        TopicBinding(name: .pushRC, scopes: [.demo, .server]),
        TopicBinding(name: .pay, scopes: [.demo], keys: [try! KeyPattern("pay_*")]),
    ]

    static func make(_ changes: [TemplateChange] = [], bindings: [TopicBinding] = bindings) -> TopicBoard {
        TopicBoard(epoch: .test, head: changes.map(\.sequence).max() ?? 0, bindings: bindings, changes: changes)
    }

    /// Announces and applies, as the hub does; returns the messages made.
    @discardableResult
    mutating func take(_ change: TemplateChange) -> [StaleMessage] {
        let announcement = announcement(of: change, fetchWindowMs: 0, at: 0)
        apply(announcement)
        return announcement.encodedMessages.map(\.encodedMessage.message)
    }

    /// PUSH_RC of the client template, and of the server template.
    var push: Topic.Index { topics(.pushRC, in: .demo)[0] }
    var pushServer: Topic.Index { topics(.pushRC, in: .demo)[1] }
    var payTopic: Topic.Index { topics(.pay, in: .demo)[0] }

    func cursor(_ sequence: CommitSequence, epoch: Epoch = .test) -> ResumePoint {
        ResumePoint(cursor: Cursor(epoch: epoch, sequence: sequence).description)
    }

    /// Versions owed to one topic's subscriber from a point.
    func versions(_ topics: [Topic.Index], _ point: ResumePoint) -> [VersionNumber] {
        opening(for: topics, from: point).messages.compactMap { self[$0.topic].latest?.version }
    }
}
