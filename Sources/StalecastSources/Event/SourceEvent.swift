package import StalecastWire

/// Event from outside about an origin: "it changed", perhaps with the version that can be seen there now. Never trusted
/// for content: it only makes a source look.
package struct SourceEvent: Sendable, Hashable {
    /// Form in which the event was packed; raw values name it in metrics and answers.
    package enum Form: String, Sendable, Hashable, CaseIterable {
        /// CloudEvents 1.0, binary, structured or batched.
        case cloudEvent = "cloudevent"
        /// The body a first-generation Cloud Function gets.
        case cloudFunction = "cloud_function"
        /// The envelope of a Pub/Sub push subscription.
        case pubSub = "pubsub"
        /// Anything else that was posted, an empty body included.
        case plain
    }

    package var form: Form
    /// Unique within ``sender``; nil when the sender gave none, and then it is never taken for a repetition.
    package var id: String?
    /// CloudEvents' `source`, or what stands for it: a Pub/Sub subscription, a resource. Empty when there is none.
    package var sender = ""
    /// The origin's project as the event spells it, id or number; nil when it names none.
    package var project: String?
    /// nil when the event names none, which means every namespace.
    package var namespace: String?
    /// The version that is said to exist; nil when unknown.
    package var version: VersionNumber?

    package init(
        form: Form, id: String? = nil, sender: String = "", project: String? = nil, namespace: String? = nil,
        version: VersionNumber? = nil
    ) {
        (self.form, self.id, self.sender) = (form, id, sender)
        (self.project, self.namespace, self.version) = (project, namespace, version)
    }

    /// Reason why a body is no event; `description` is a sentence for its sender.
    package struct Problem: Error, Hashable, CustomStringConvertible {
        /// 400, or 415 for an encoding of CloudEvents that is not JSON.
        package let status: Int
        package let description: String

        init(_ description: String, status: Int = 400) {
            self.status = status
            self.description = description
        }
    }
}
