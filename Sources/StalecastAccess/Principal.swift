package import StalecastWire

/// Caller and its permissions.
package struct Principal: Sendable, Hashable {
    /// Kind of its credential; raw values are in the audit log and in `updateUser`.
    package enum Kind: String, Sendable {
        case anonymous
        /// The control token.
        case bootstrap
        case key
        /// Token of an issuer.
        case token
        /// Certificate of a TLS client.
        case certificate
        /// Named by the user's backend.
        case hook
    }

    package let kind: Kind
    /// Id of the credential, for people and logs: a key's id, a token's subject, `bootstrap`, `anonymous`.
    package let id: String
    /// Name that was given to it; may be empty.
    package let name: String
    /// Stands for the credential in a stream's slot: the same as long as the process lives. 0 is anonymous.
    package let number: Int32
    /// nil does not expire.
    package let expiresAt: Timestamp?
    package let grants: [Grant]
    /// The configured name of a token's issuer; else empty.
    package let issuer: String
    /// Verified by the issuer.
    package let email: String?

    package init(
        kind: Kind, id: String, name: String = "", number: Int32 = 0, expiresAt: Timestamp? = nil, grants: [Grant],
        issuer: String = "", email: String? = nil
    ) {
        (self.issuer, self.email, self.kind, self.id) = (issuer, email, kind, id)
        (self.name, self.number, self.expiresAt, self.grants) = (name, number, expiresAt, grants)
    }

    /// Actor in the audit log: the same for all credentials of one holder.
    package var actor: String {
        switch kind {
        case .key: "key:\(id)"
        case .token: "token:\(issuer):\(id)"
        case .certificate: "certificate:\(id)"
        case .hook: "hook:\(id)"
        case .bootstrap, .anonymous: id
        }
    }

    /// Default deny.
    package func may(_ action: AccessAction, in scope: Scope, _ topics: Grant.Topics = .irrelevant) -> Bool {
        grants.contains { $0.permits(action, in: scope, topics) }
    }

    /// Whether a grant is about names like these, which need not mean anything here: a caller that has none for a name is
    /// told the same whether it exists or not.
    package func may(
        _ action: AccessAction, project: String, namespace: String? = nil, _ topics: Grant.Topics = .irrelevant
    ) -> Bool {
        grants.contains { $0.permits(action, project: project, namespace: namespace, topics) }
    }

    package func mayEverywhere(_ action: AccessAction) -> Bool { grants.contains { $0.permitsEverywhere(action) } }

    /// Whether there is anything at all to which it may do this.
    package func maySomewhere(_ action: AccessAction) -> Bool {
        grants.contains { $0.actions.contains(action) || $0.role?.actions.contains(action) ?? false }
    }
}

/// Reason of a refusal; raw values are in logs and metrics and never on the wire.
package enum Denial: String, Error, Sendable, CaseIterable {
    /// No credential, and anonymous callers have no grant.
    case missing
    /// An unknown scheme or spelling.
    case malformed
    /// Two different credentials, or one header twice.
    case ambiguous
    /// Text in a key's form whose checksum is wrong: a typing error.
    case typo
    case unknown
    case notYet = "not_yet_valid"
    case expired
    case revoked
    /// A secret key in a URL, where logs and histories keep it: it should be replaced.
    case leaked
    /// Known, and without a grant for this.
    case notGranted = "not_granted"
    /// Token of an issuer that is not configured.
    case unknownIssuer = "unknown_issuer"
    case wrongAlgorithm = "wrong_algorithm"
    case unknownKey = "unknown_key"
    case badSignature = "bad_signature"
    case wrongAudience = "wrong_audience"
    case badClaims = "bad_claims"
    /// A token that is good for longer than its issuer's may be.
    case tooLong = "too_long"
    /// No answer at present: the keys are not here yet, or too many callers ask.
    case notReady = "not_ready"
    /// Too many bad ones from one address.
    case overRate = "over_rate"

    /// 400, 401, 403, 429 or 503.
    package var status: Int {
        switch self {
        case .ambiguous: 400
        case .notGranted: 403
        case .overRate: 429
        case .notReady: 503
        default: 401
        }
    }
}

/// Action that a grant can permit. Edge asks for the first two, Control for the others.
package enum AccessAction: String, Sendable, CaseIterable {
    /// Hear of versions: streams, polls, state.
    case watch
    /// Get the values for an app instance.
    case fetch
    /// See templates, versions, webhooks, topics.
    case read
    /// Publish, roll back, send messages, make a source look.
    case publish
    /// Change webhooks.
    case manage
    /// Keys.
    case operate
}

/// A bundle of actions.
package enum AccessRole: String, Sendable, CaseIterable {
    case viewer, publisher
    case `operator`

    package var actions: Set<AccessAction> {
        switch self {
        case .viewer: [.read]
        case .publisher: [.read, .publish]
        case .operator: Set(AccessAction.allCases)
        }
    }
}

/// Permission to do some things to some scopes and topics. Grants only add: what none of them permits is denied.
package struct Grant: Sendable, Hashable {
    package let role: AccessRole?
    /// Actions beside those of the role.
    package let actions: Set<AccessAction>
    package let projects: [Glob]
    package let namespaces: [Glob]
    package let topics: [Glob]

    /// Topics that an action is about.
    package enum Topics: Sendable {
        /// The action is about a scope, not about topics.
        case irrelevant
        /// Everything that is said of a scope.
        case all
        case named(TopicName)
    }

    /// Makes a grant; without restrictions it covers everything.
    package init(
        role: AccessRole? = nil, actions: Set<AccessAction> = [], projects: [Glob] = [.any],
        namespaces: [Glob] = [.any], topics: [Glob] = [.any]
    ) {
        (self.role, self.actions, self.projects) = (role, actions, projects)
        (self.namespaces, self.topics) = (namespaces, topics)
    }

    /// - Parameters: names as they are resolved and decoded, never as a client spells them.
    package func permits(_ action: AccessAction, in scope: Scope, _ topics: Topics = .irrelevant) -> Bool {
        permits(action, project: scope.project.description, namespace: scope.namespace.description, topics)
    }

    /// True when a scope that need not exist is covered; nil is any namespace.
    package func permits(
        _ action: AccessAction, project: String, namespace: String?, _ topics: Topics = .irrelevant
    ) -> Bool {
        guard actions.contains(action) || role?.actions.contains(action) ?? false, projects.match(project),
            namespace.map(namespaces.match) ?? true
        else { return false }
        return switch topics {
        case .irrelevant: true
        case .all: self.topics.contains(.any)
        case .named(let name): self.topics.match(name.description)
        }
    }

    /// Whether it permits `action` everywhere, also in projects that are yet to come.
    package func permitsEverywhere(_ action: AccessAction) -> Bool {
        (actions.contains(action) || role?.actions.contains(action) ?? false)
            && projects.contains(.any) && namespaces.contains(.any)
    }
}

extension Glob {
    /// `*`.
    package static let any = Glob("*")

    /// A pattern for names of projects, namespaces and topics.
    package init(ofNames pattern: String) throws(InvalidName) {
        guard pattern.isWord(1...255, and: "-_.:~%*?") else {
            throw InvalidName(description: "a pattern of names has 1 to 255 characters of A-Z a-z 0-9 - _ . : ~ % * ?")
        }
        self.init(pattern)
    }
}

extension [Glob] {
    func match(_ name: String) -> Bool { contains { $0.matches(name) } }
}
