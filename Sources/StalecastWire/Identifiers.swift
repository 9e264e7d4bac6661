/// Reason why a name from outside was refused; `description` is a sentence for its sender.
package struct InvalidName: Error, CustomStringConvertible {
    package let description: String

    package init(description: String) { self.description = description }
}

/// A project's id as Firebase spells it, for example `demo`. 1–63 characters of `[A-Za-z0-9_.:-]`.
package struct ProjectID: Hashable, Sendable, CustomStringConvertible, Comparable {
    package let description: String

    /// The project that is served when none is configured.
    package static let demo = ProjectID(known: "demo")

    private init(known: String) { description = known }

    package init(_ text: String) throws(InvalidName) {
        let legal = text.utf8.allSatisfy { $0.isASCIIAlphanumeric || "-_.:".utf8.contains($0) }
        guard legal, (1...63).contains(text.utf8.count), text != ".", text != ".." else {
            throw InvalidName(description: "a project id has 1 to 63 characters of A-Z a-z 0-9 - _ . :")
        }
        description = text
    }

    package static func < (a: Self, b: Self) -> Bool { a.description < b.description }
}

/// A namespace of a project: `firebase` (client template) or `firebase-server` (server template).
package struct Namespace: Hashable, Sendable, CustomStringConvertible, Comparable {
    package let description: String

    /// The client template, the default.
    package static let firebase = Namespace(known: "firebase")
    /// The server template.
    package static let firebaseServer = Namespace(known: "firebase-server")

    private init(known: String) { description = known }

    package init(_ text: String) throws(InvalidName) {
        let legal = text.utf8.allSatisfy { $0.isASCIIAlphanumeric || "-_.".utf8.contains($0) }
        guard legal, (1...63).contains(text.utf8.count), text != ".", text != ".." else {
            throw InvalidName(description: "a namespace has 1 to 63 characters of A-Z a-z 0-9 - _ .")
        }
        description = text
    }

    package static func < (a: Self, b: Self) -> Bool { a.description < b.description }
}

/// A project and a namespace: the unit that has versions. Printed `demo/firebase`.
package struct Scope: Hashable, Sendable, CustomStringConvertible, Comparable {
    package let project: ProjectID
    package let namespace: Namespace

    package init(project: ProjectID, namespace: Namespace) {
        self.project = project
        self.namespace = namespace
    }

    package var description: String { "\(project)/\(namespace)" }

    package static func < (a: Self, b: Self) -> Bool { a.description < b.description }
}

/// A topic's name, by FCM's rule: `[a-zA-Z0-9-_.~%]{1,255}`.
package struct TopicName: Hashable, Sendable, CustomStringConvertible, Comparable {
    package let description: String

    /// The topic of clients' templates unless configured otherwise; Firebase's guide uses this name.
    package static let pushRC = TopicName(known: "PUSH_RC")

    /// The topic of server templates unless configured otherwise: clients hear nothing of them.
    package static let pushRCServer = TopicName(known: "PUSH_RC_SERVER")

    /// The topic of messages about webhooks themselves (`webhook.disabled`, `webhook.recovered`), which no scope is
    /// bound to: only webhooks hear it.
    package static let webhookOperations = TopicName(known: "stalecast.webhooks")

    /// The topic of messages about releases (`release.began` to `release.superseded`), which only webhooks hear.
    package static let releaseOperations = TopicName(known: "stalecast.releases")

    /// Topics that no scope is bound to.
    package static let operations = [webhookOperations, releaseOperations]

    private init(known: String) { description = known }

    /// The name under which the Firebase invalidation streams of a scope are kept. No client can ask for it: it has
    /// characters a topic name must not have.
    package static func ofScope(_ scope: Scope) -> TopicName { TopicName(known: "scope:\(scope)") }

    package init(_ text: String) throws(InvalidName) {
        let legal = text.utf8.allSatisfy { $0.isASCIIAlphanumeric || "-_.~%".utf8.contains($0) }
        guard legal, (1...255).contains(text.utf8.count) else {
            throw InvalidName(description: "a topic name has 1 to 255 characters of A-Z a-z 0-9 - _ . ~ %")
        }
        description = text
    }

    package static func < (a: Self, b: Self) -> Bool { a.description < b.description }
}

/// The store-wide commit counter: one step per version committed in any scope; 0 is an empty store.
package typealias CommitSequence = UInt64

extension String {
    /// Whether there are so many bytes, each of them a letter or digit of ASCII or one of `others`.
    package func isWord(_ length: ClosedRange<Int>, and others: String) -> Bool {
        length.contains(utf8.count) && utf8.allSatisfy { $0.isASCIIAlphanumeric || others.utf8.contains($0) }
    }
}

extension UInt8 {
    /// True for `0-9`, `A-Z`, `a-z`.
    @inlinable package var isASCIIAlphanumeric: Bool {
        switch self {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        default: false
        }
    }
}
