import StalecastWire

/// Checks what a well-shaped template says: names, counts, lengths, references, values, expressions.
struct TemplateRules {
    let template: Template
    let kind: TemplateKind
    let limits: TemplateLimits
    var problems: TemplateProblems
    /// Budget of all schemas together; nil checks none.
    var schemaBudget: EvaluationBudget?

    init(template: Template, kind: TemplateKind, limits: TemplateLimits, problems: TemplateProblems) {
        (self.template, self.kind, self.limits, self.problems) = (template, kind, limits, problems)
        schemaBudget = limits.schemaSteps.map { EvaluationBudget(steps: $0) }
    }

    mutating func check() {
        checkLength(
            template.requestedDescription, limits.versionDescriptionLength, "the description of a version",
            at: .versionDescription)
        checkControls()
        checkConditions()
        check("Param", template.parameterMaps.reduce(0) { $0 + $1.count }, limits.parameters, at: .parameters)
        checkUniqueKeys()
        checkParameters(template.parameters, in: .root)
        checkGroups()
        checkConditionNames()
        checkSchemaCondition()
        checkTotalValueLength()
    }

    /// A version's description goes into headers of lists, logs and columns of a database; SQLite's own tools end a text
    /// at a NUL.
    private mutating func checkControls() {
        let isControl = { (scalar: Unicode.Scalar) in
            scalar.properties.generalCategory == .control && !["\t", "\n", "\r"].contains(scalar)
        }
        guard let control = template.requestedDescription.unicodeScalars.first(where: isControl) else { return }
        problems.add(
            at: .versionDescription,
            "version.description: the control character U+\(String(control.value, radix: 16).leftPadded) is not allowed"
        )
    }

    private mutating func checkConditions() {
        let conditions = template.conditions
        check("Condition", conditions.count, limits.conditions, at: .conditions)
        var names: Set<String> = []
        var patternSize = 0
        for (index, condition) in conditions.enumerated() {
            let path = TemplatePath.element(.conditions, index)
            checkName(of: condition, at: path)
            patternSize += checkExpression(of: condition, at: path)
            if !names.insert(condition.name).inserted {
                problems.add(
                    .duplicateKey, at: path, "\(path.text): there is another condition '\(condition.name.shown)'")
            }
        }
        if patternSize > limits.patternSize {
            problems.add(at: .conditions, "the regular expressions of all conditions are too large together")
        }
    }

    private mutating func checkName(of condition: TemplateCondition, at path: TemplatePath) {
        let name = condition.name
        let isLegal = name.utf8.allSatisfy { $0.isASCIIAlphanumeric || "-_ '!%.".utf8.contains($0) }
        let isInRange = !name.isEmpty && name.utf8.count <= limits.conditionNameLength
        if isLegal, isInRange, name.utf8.first != 0x20, name.utf8.last != 0x20 { return }
        problems.add(
            at: .member(path, "name"),
            """
            \(path.text).name: '\(name.shown)' is no condition name: 1 to \(limits.conditionNameLength) characters of \
            A-Z a-z 0-9 - _ ' ! % . and blanks, no blank first or last
            """)
    }

    /// The size of its regular expressions.
    private mutating func checkExpression(of condition: TemplateCondition, at path: TemplatePath) -> Int {
        do {
            return try ConditionExpression(parsing: condition.expression, kind: kind).patternSize
        } catch {
            problems.add(
                at: .member(path, "expression"),
                "\(path.text).expression: condition '\(condition.name.shown)': \(error)")
            return 0
        }
    }

    private mutating func checkGroups() {
        check("Group", template.groups.count, limits.groups, at: .groups)
        for name in template.groups.keys.sorted() {
            guard let group = template.groups[name] else { continue }
            let path = TemplatePath.member(.groups, name)
            if name.isEmpty { problems.add(at: path, "parameterGroups: a group needs a name") }
            checkLength(name, limits.groupNameLength, "the name of a group", at: path)
            checkLength(
                group.description, limits.descriptionLength, "the description of a group",
                at: .member(path, "description"))
            checkParameters(group.parameters, in: path)
        }
    }

    /// Google's one sentence for all names together.
    private mutating func checkConditionNames() {
        let known = Set(template.conditions.map(\.name))
        var unknown: Set<String> = []
        for parameters in template.parameterMaps {
            for parameter in parameters.values {
                for name in parameter.conditionalValues.keys where !known.contains(name) { unknown.insert(name) }
            }
        }
        guard !unknown.isEmpty else { return }
        var listed = unknown.sorted().prefix(Self.maxListedNames).map(\.shown).joined(separator: ", ")
        if unknown.count > Self.maxListedNames { listed += ", … and \(unknown.count - Self.maxListedNames) more" }
        problems.add(
            at: .parameters,
            """
            [\(listed)] are not valid condition names. All keys in all conditional value maps must be valid \
            condition names.
            """)
    }

    private static let maxListedNames = 200

    mutating func check(_ what: String, _ count: Int, _ limit: Int, at path: TemplatePath) {
        if count > limit { problems.add(at: path, "\(what) count too large: \(count), at most \(limit) are allowed.") }
    }

    mutating func checkLength(_ text: String, _ limit: Int, _ what: String, at path: TemplatePath) {
        // A code point takes at least one byte: most texts are short enough without counting.
        guard text.utf8.count > limit else { return }
        let length = text.unicodeScalars.count
        if length > limit {
            problems.add(at: path, "\(path.text): \(what) has at most \(limit) characters, not \(length)")
        }
    }
}

extension String {
    /// Text with zeros to four digits.
    fileprivate var leftPadded: String { String(repeating: "0", count: max(0, 4 - count)) + self }
}

extension Template {
    /// The parameters outside groups, then those of each group, in no particular order of groups.
    var parameterMaps: [[String: TemplateParameter]] { [parameters] + groups.values.map(\.parameters) }
}
