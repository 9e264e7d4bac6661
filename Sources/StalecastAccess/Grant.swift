package import StalecastWire

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
        /// It is about a scope.
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
        self.role = role
        self.actions = actions
        self.projects = projects
        self.namespaces = namespaces
        self.topics = topics
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
        let legal = pattern.utf8.allSatisfy { $0.isASCIIAlphanumeric || "-_.:~%*?".utf8.contains($0) }
        guard legal, (1...255).contains(pattern.utf8.count) else {
            throw InvalidName(description: "a pattern of names has 1 to 255 characters of A-Z a-z 0-9 - _ . : ~ % * ?")
        }
        self.init(pattern)
    }
}

extension [Glob] {
    func match(_ name: String) -> Bool { contains { $0.matches(name) } }
}
