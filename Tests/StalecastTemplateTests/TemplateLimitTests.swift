import StalecastTemplate
import Testing

@Suite struct TemplateLimitTests {
    private func template(parameters: Int = 0, grouped: Int = 0, conditions: Int = 0, groups: Int = 0) -> Template {
        let make = { (prefix: String, count: Int) in
            let pairs = (0..<count).map { ("\(prefix)\($0)", TemplateParameter(defaultValue: .value("x"))) }
            return Dictionary(uniqueKeysWithValues: pairs)
        }
        var template = Template(parameters: make("p", parameters))
        template.conditions = (0..<conditions).map { TemplateCondition(name: "c\($0)", expression: "true") }
        for index in 0..<groups { template.groups["g\(index)"] = ParameterGroup() }
        if grouped > 0 { template.groups["grouped"] = ParameterGroup(parameters: make("q", grouped)) }
        return template
    }

    private func message(_ template: Template, _ limits: TemplateLimits = .firebase) -> String? {
        do {
            _ = try Template(validating: template.json, kind: .client, limits: limits)
            return nil
        } catch { return error.message }
    }

    @Test func threeThousandParametersAreTheMostWhereverTheyAre() {
        #expect(message(template(parameters: 1500, grouped: 1500)) == nil)
        #expect(message(template(parameters: 1500, grouped: 1501))?.contains("Param count too large: 3001") == true)
    }

    @Test func twoThousandConditionsAreTheMost() {
        #expect(message(template(conditions: 2000)) == nil)
        #expect(message(template(conditions: 2001))?.contains("Condition count too large: 2001") == true)
    }

    @Test func thousandGroupsAreTheMost() {
        #expect(message(template(groups: 1000)) == nil)
        #expect(message(template(groups: 1001))?.contains("Group count too large: 1001") == true)
    }

    @Test func namesAndDescriptionsHaveALongestLength() {
        let short = String(repeating: "é", count: 256)
        let long = short + "é"
        let key = String(repeating: "k", count: 257)
        let value = TemplateParameter(defaultValue: .value(""))
        #expect(message(Template(parameters: ["a": value.described(short)])) == nil)
        #expect(message(Template(parameters: ["a": value.described(long)]))?.contains("not 257") == true)
        #expect(message(Template(parameters: [String(key.dropLast()): value])) == nil)
        #expect(message(Template(parameters: [key: value]))?.contains("no parameter name") == true)
        #expect(message(Template(groups: [short: ParameterGroup(description: short)])) == nil)
        #expect(message(Template(groups: [long: ParameterGroup()]))?.contains("name of a group") == true)
        #expect(message(Template(groups: ["g": ParameterGroup(description: long)]))?.contains("description") == true)
        let condition = { (name: String) in Template(conditions: [TemplateCondition(name: name, expression: "true")]) }
        #expect(message(condition(String(key.dropLast()))) == nil)
        #expect(message(condition(key))?.contains("no condition name") == true)
    }

    @Test func versionDescriptionHasALongestLength() throws {
        let text = { (length: Int) in #"{"version":{"description":"\#(String(repeating: "d", count: length))"}}"# }
        #expect(try Template.make(text(1024)).requestedDescription.count == 1024)
        #expect(try problems(text(1025)).problems.map(\.path) == ["version.description"])
    }

    @Test func allValuesTogetherHaveALimitInCharacters() {
        let half = String(repeating: "€", count: 500_000)
        let value = TemplateParameter(defaultValue: .value(half), conditionalValues: ["c": .value(half)])
        var template = Template(
            conditions: [TemplateCondition(name: "c", expression: "true")], parameters: ["a": value])
        #expect(message(template) == nil)
        template.groups["g"] = ParameterGroup(parameters: ["b": TemplateParameter(defaultValue: .value("x"))])
        #expect(message(template)?.contains("1000001") == true)
    }

    @Test func limitsCanBeSet() {
        var limits = TemplateLimits.firebase
        limits.parameters = 1
        #expect(message(template(parameters: 2), limits)?.contains("at most 1 ") == true)
    }

    /// 440,000 conditional values of unknown conditions, the most an 8 MB body holds: still one short message.
    @Test func hostileTemplateGivesAShortMessage() throws {
        var values: [String: ParameterValue] = [:]
        for index in 0..<20_000 { values["c\(index)"] = .value("") }
        let found = message(Template(parameters: ["a": TemplateParameter(conditionalValues: values)]))
        #expect(found?.contains("… and 19800 more] are not valid condition names.") == true)
        #expect(found?.utf8.count ?? .max < 5000)
    }
}

extension TemplateParameter {
    fileprivate func described(_ description: String) -> TemplateParameter {
        var parameter = self
        parameter.description = description
        return parameter
    }
}
