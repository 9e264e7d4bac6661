package import StalecastWire

/// The remote config template of a scope as a value: what is published, stored, compared and served. Which version it
/// is, and its ETag, are the store's business.
package struct Template: Sendable, Hashable {
    /// Conditions in order of priority; the first true one wins.
    package var conditions: [TemplateCondition]
    /// The parameters outside any group, by name.
    package var parameters: [String: TemplateParameter]
    /// The groups by name; grouping is for people and changes no outcome.
    package var groups: [String: ParameterGroup]
    /// `version.description` of a publish request, at most 1024 characters; empty when none was given. It is no part
    /// of ``json``, so a template read back from the store has none.
    package var requestedDescription: String

    /// No conditions, no parameters: what a scope has before its first version.
    package static let empty = Template()

    package init(
        conditions: [TemplateCondition] = [], parameters: [String: TemplateParameter] = [:],
        groups: [String: ParameterGroup] = [:], requestedDescription: String = ""
    ) {
        (self.conditions, self.parameters) = (conditions, parameters)
        (self.groups, self.requestedDescription) = (groups, requestedDescription)
    }

    /// Reads a template from outside and checks everything: shape, names, limits, values, condition expressions.
    /// Member names may be camelCase or snake_case; `etag` and all of `version` but its description are ignored.
    ///
    /// - Parameter text: what `json` was parsed from, for the lines of problems; nil when it is not known.
    /// - Throws: all problems together (the first ``TemplateProblems/maxListed`` of them in words).
    package init(
        validating json: JSONValue, from text: [UInt8]? = nil, kind: TemplateKind, limits: TemplateLimits = .firebase
    ) throws(TemplateProblems) {
        var decoder = TemplateDecoder()
        let template = decoder.template(json)
        var rules = TemplateRules(template: template, kind: kind, limits: limits, problems: decoder.problems)
        rules.check()
        try rules.problems.throwIfAny(in: text)
        self = template
    }

    /// Reads what ``json`` wrote. Only the shape is checked: a rule that became stricter since must not make an old
    /// version unreadable.
    package init(stored json: JSONValue) throws(TemplateProblems) {
        var decoder = TemplateDecoder()
        let template = decoder.template(json)
        try decoder.problems.throwIfAny()
        self = template
    }

    /// Every parameter by name, those in groups included.
    package var allParameters: [String: TemplateParameter] {
        groups.values.reduce(into: parameters) { all, group in all.merge(group.parameters) { first, _ in first } }
    }

    /// The canonical document: `conditions` in order, `parameters` and `parameterGroups` sorted by name, all three
    /// present even when empty; no `version`, no `etag`.
    package var json: JSONValue {
        [
            "conditions": .array(conditions.map(\.json)),
            "parameters": parameters.sortedJSON { $0.json },
            "parameterGroups": groups.sortedJSON { $0.json },
        ]
    }
}

/// Kind of a template, which decides the rules it obeys.
package enum TemplateKind: Sendable, Hashable, CaseIterable {
    /// Evaluated for app instances by `:fetch`: namespace `firebase` and all others.
    case client
    /// Evaluated by Admin SDKs; conditions may test only `percent` and custom signals.
    case server

    /// The kind of the template in `namespace`: ``server`` for `firebase-server`.
    package init(namespace: Namespace) { self = namespace == .firebaseServer ? .server : .client }
}

extension Dictionary where Key == String {
    /// A JSON object whose members are sorted by name.
    func sortedJSON(_ convert: (Value) -> JSONValue) -> JSONValue {
        var object = JSONObject()
        for name in keys.sorted() { object[name] = self[name].map(convert) }
        return .object(object)
    }
}
