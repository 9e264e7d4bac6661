package import StalecastWire

/// Place of the JSON Schemas in a template: a parameter's schema is its value for a condition that is never true. So it
/// stays with the parameter wherever a template is copied, also by tools that know nothing of it, and no client gets it.
package enum SchemaCondition {
    package static let name = "JSON Schema"
    package static let expression = "false"

    /// The condition, as a template's document has it.
    package static var json: JSONValue { TemplateCondition(name: name, expression: expression).json }
}

extension TemplateRules {
    mutating func checkSchemaCondition() {
        guard limits.schemaSteps != nil,
            let index = template.conditions.firstIndex(where: { $0.name == SchemaCondition.name }),
            template.conditions[index].expression != SchemaCondition.expression
        else { return }
        let path = TemplatePath.member(.element(.conditions, index), "expression")
        problems.add(
            at: path,
            """
            \(path.text): the condition '\(SchemaCondition.name)' holds the schemas of parameters; its expression must be \
            \(SchemaCondition.expression), so that no client gets them
            """)
    }

    /// Checks all values of a parameter against its schema, where it has one.
    mutating func checkSchema(of parameter: TemplateParameter, at path: TemplatePath) {
        guard let budget = schemaBudget, let value = parameter.conditionalValues[SchemaCondition.name] else { return }
        let conditional = TemplatePath.member(path, "conditionalValues")
        let place = TemplatePath.member(conditional, SchemaCondition.name)
        do throws(SchemaComplaint) {
            guard let json = try schema(value, of: parameter) else { return }
            var compiler = SchemaCompiler(budget)
            // Steps spent on a refused schema count as well: all parameters share one budget.
            defer { schemaBudget = compiler.budget }
            var check = SchemaCheck(try compiler.schema(json), budget: compiler.budget)
            if let value = parameter.defaultValue { checkTexts(of: value, &check, at: .member(path, "defaultValue")) }
            for (name, value) in parameter.conditionalValues.sorted(by: { $0.key < $1.key })
            where name != SchemaCondition.name {
                checkTexts(of: value, &check, at: .member(conditional, name))
            }
            compiler.budget = check.budget
        } catch {
            let pointer = error.pointer.isEmpty ? "" : " at \(error.pointer.shown)"
            problems.add(at: place, "\(place.text): the schema is refused\(pointer): \(error.reason)")
        }
    }

    /// The schema's document; nil where there is none, or where it is not JSON, which another rule reports.
    private func schema(
        _ value: ParameterValue, of parameter: TemplateParameter
    ) throws(SchemaComplaint) -> JSONValue? {
        if case .inAppDefault = value { return nil }
        guard parameter.effectiveType == .json, case .value(let text) = value else {
            throw SchemaComplaint(path: [], reason: "only a parameter of type JSON has one, as a plain value")
        }
        guard text.utf8.count <= limits.schemaSize else {
            throw SchemaComplaint(path: [], reason: "it has more than \(limits.schemaSize) bytes")
        }
        return JSONValue.ifValid(text.utf8)
    }

    private mutating func checkTexts(of value: ParameterValue, _ check: inout SchemaCheck, at path: TemplatePath) {
        for text in value.texts {
            guard let json = JSONValue.ifValid(text.utf8), let complaint = check.complaint(about: json) else {
                continue
            }
            let pointer = complaint.pointer.isEmpty ? "" : " at \(complaint.pointer.shown)"
            problems.add(at: path, "\(path.text) breaks its JSON Schema\(pointer): \(complaint.reason)")
        }
    }
}

extension Template {
    /// The template without its schemas: all of it that changes what a client gets.
    var withoutSchemas: Template {
        let isSchemas = { (condition: TemplateCondition) in
            condition.name == SchemaCondition.name && condition.expression == SchemaCondition.expression
        }
        guard conditions.contains(where: isSchemas) else { return self }
        var template = self
        template.conditions.removeAll(where: isSchemas)
        template.parameters = parameters.mapValues(\.withoutSchema)
        template.groups = groups.mapValues {
            ParameterGroup(description: $0.description, parameters: $0.parameters.mapValues(\.withoutSchema))
        }
        return template
    }
}

extension TemplateParameter {
    fileprivate var withoutSchema: TemplateParameter {
        var parameter = self
        parameter.conditionalValues[SchemaCondition.name] = nil
        return parameter
    }
}
