import StalecastTemplate
import StalecastWire
import Testing

@Suite struct TemplateDifferenceTests {
    private let base = Template(
        conditions: [
            TemplateCondition(name: "a", expression: "percent <= 10"),
            TemplateCondition(name: "b", expression: "percent <= 20"),
            TemplateCondition(name: "unused", expression: "true"),
        ],
        parameters: [
            "plain": TemplateParameter(defaultValue: .value("1")),
            "one": TemplateParameter(defaultValue: .value("1"), conditionalValues: ["a": .value("2")]),
            "two": TemplateParameter(conditionalValues: ["a": .value("2"), "b": .value("3")]),
        ],
        groups: ["g": ParameterGroup(parameters: ["grouped": TemplateParameter(defaultValue: .value("x"))])])

    private func changed(_ change: (inout Template) -> Void) -> [String] {
        var new = base
        change(&new)
        let forth = TemplateDifference.changedKeys(from: base, to: new)
        #expect(TemplateDifference.changedKeys(from: new, to: base) == forth, "the difference is symmetric")
        return forth
    }

    @Test func sameTemplateChangesNothing() {
        #expect(changed { _ in } == [])
        #expect(TemplateChanges(from: base, to: base).isEmpty)
        #expect(TemplateDifference.changedKeys(from: .empty, to: base) == ["grouped", "one", "plain", "two"])
    }

    @Test func valuesAndTypesChangeTheirParameter() {
        #expect(changed { $0.parameters["plain"]?.defaultValue = .value("2") } == ["plain"])
        #expect(changed { $0.parameters["plain"]?.defaultValue = .inAppDefault } == ["plain"])
        #expect(changed { $0.parameters["one"]?.defaultValue = nil } == ["one"])
        #expect(changed { $0.parameters["one"]?.conditionalValues["a"] = .value("9") } == ["one"])
        #expect(changed { $0.parameters["one"]?.conditionalValues["b"] = .value("2") } == ["one"])
        #expect(changed { $0.parameters["one"]?.conditionalValues = [:] } == ["one"])
        #expect(changed { $0.parameters["plain"]?.valueType = .number } == ["plain"])
        #expect(changed { $0.groups["g"]?.parameters["grouped"]?.defaultValue = .value("y") } == ["grouped"])
    }

    @Test func parametersAddedAndRemovedAreChanged() {
        #expect(changed { $0.parameters["plain"] = nil } == ["plain"])
        #expect(changed { $0.parameters["new"] = TemplateParameter(defaultValue: .value("")) } == ["new"])
        #expect(changed { $0.groups["g"] = nil } == ["grouped"])
    }

    @Test func whatIsForPeopleChangesNothing() {
        #expect(changed { $0.parameters["plain"]?.description = "text" } == [])
        #expect(changed { $0.parameters["plain"]?.valueType = .string } == [])
        #expect(changed { $0.conditions[0].tagColor = .pink } == [])
        #expect(changed { $0.groups["g"]?.description = "text" } == [])
        #expect(changed { $0.requestedDescription = "text" } == [])
    }

    @Test func moveBetweenGroupsCountsOnlyWithAnotherValue() {
        let move = { (value: String, template: inout Template) in
            template.groups["g"]?.parameters["grouped"] = nil
            template.groups["h"] = ParameterGroup(parameters: [
                "grouped": TemplateParameter(defaultValue: .value(value))
            ])
        }
        #expect(changed { move("x", &$0) } == [])
        #expect(changed { move("y", &$0) } == ["grouped"])
    }

    @Test func expressionOfAUsedConditionChangesItsUsers() {
        #expect(changed { $0.conditions[0].expression = "percent <= 11" } == ["one", "two"])
        #expect(changed { $0.conditions[1].expression = "true" } == ["two"])
        #expect(changed { $0.conditions[2].expression = "false" } == [])
        #expect(changed { $0.conditions.remove(at: 1) } == ["two"])
        #expect(changed { $0.conditions.remove(at: 2) } == [])
    }

    @Test func orderCountsAmongTheConditionsAParameterUses() {
        #expect(changed { $0.conditions.swapAt(0, 1) } == ["two"])
        #expect(changed { $0.conditions.swapAt(1, 2) } == [])
        #expect(changed { $0.conditions.insert(TemplateCondition(name: "top", expression: "true"), at: 0) } == [])
        #expect(changed { $0.conditions = [$0.conditions[2], $0.conditions[0], $0.conditions[1]] } == [])
    }

    @Test func descriptionListsEveryDifference() throws {
        var new = base
        new.parameters["plain"] = nil
        new.parameters["fresh"] = TemplateParameter(defaultValue: .inAppDefault, valueType: .json)
        new.parameters["one"]?.conditionalValues["a"] = .value("5")
        new.parameters["one"]?.description = "what\nfor"
        new.conditions = [new.conditions[1], new.conditions[0]]
        new.groups["g"]?.description = "a group"
        let changes = TemplateChanges(from: base, to: new)
        #expect(
            changes.text == """
                ~ condition b (priority 1)
                    priority: 2 -> 1
                - condition unused (priority 3)
                    expression: true
                ~ group g
                    description: (none) -> "a group"
                + parameter fresh
                    default: (in-app default)
                    type: JSON
                ~ parameter one
                    if a: "2" -> "5"
                    description: (none) -> "what\u{FFFD}for"
                - parameter plain
                    default: "1"
                    type: STRING

                """)
        let json = changes.json
        #expect(json["parameters"]?.array?.map { $0["name"]?.string } == ["fresh", "one", "plain"])
        #expect(json["parameters"]?.array?.map { $0["change"]?.string } == ["added", "changed", "removed"])
        #expect(json["parameters"]?.array?[1]["new"]?["conditionalValues"]?["a"]?["value"] == "5")
        #expect(json["conditions"]?.array?.map { $0["change"]?.string } == ["changed", "removed"])
        #expect(json["conditions"]?.array?[0]["new"]?["priority"]?.int64 == 1)
        #expect(json["conditions"]?.array?[0]["new"]?["moved"]?.bool == true)
    }

    @Test func oneMovedConditionIsTheOnlyOneListed() {
        let names = (0..<500).map { TemplateCondition(name: "c\($0)", expression: "true") }
        let old = Template(conditions: names)
        let new = Template(conditions: [names[499]] + names.dropLast())
        #expect(TemplateChanges(from: old, to: new).conditions.map(\.name) == ["c499"])
    }

    @Test func longValuesThatDifferAtTheEndAreStillShownAsDifferent() {
        let long = String(repeating: "x", count: 300)
        let text = TemplateChanges(from: .make(["a": long + "1"]), to: .make(["a": long + "2"])).text
        #expect(text.contains("they differ in a part not shown"))
        #expect(text.utf8.count < 400)
    }

    @Test func jsonHasNoQuotesAroundIt() {
        let new = Template.make(["a": #"{"text":""}"#, "b": "[not json"])
        let text = TemplateChanges(from: .make([:]), to: new).text
        #expect(text.contains(#"default: {"text":""}"#) && text.contains(#"default: "[not json""#), "\(text)")
    }

    /// Shows what differs inside two JSON texts; of one that only looks like it, the whole.
    @Test(arguments: [
        (
            #"{"paywall":{"title":"Plus","price":4.99},"pages":[1,2]}"#,
            #"{"paywall":{"title":"Plus","price":3.99,"new":true},"pages":[1,3,4]}"#,
            [
                "at paywall.price: 4.99 -> 3.99", "at paywall.new: (none) -> true", "at pages[1]: 2 -> 3",
                "at pages[2]: (none) -> 4",
            ]
        ),
        (#"[1]"#, #"{"a":1}"#, []), (#"{"a":1}"#, #"{"a":1"#, []), (#"{"a":1,"b":2}"#, #"{ "b":2, "a":1 }"#, []),
        (#"{"a":"text"}"#, #"{"a":{"b":1}}"#, [#"at a: "text" -> {"b":1}"#]),
    ])
    func aChangeInsideJSONIsShownAlone(old: String, new: String, lines: [String]) {
        let text = TemplateChanges(from: .make(["a": old]), to: .make(["a": new])).text
        let whole = #"    default: "\#(old)" -> "\#(new)""#
        let wanted = lines.isEmpty ? [whole] : lines.map { "    default, \($0)" }
        #expect(text == (["~ parameter a"] + wanted).joined(separator: "\n") + "\n")
    }

    @Test func moveIntoAGroupIsDescribed() {
        var new = base
        new.parameters["grouped"] = new.groups["g"]?.parameters.removeValue(forKey: "grouped")
        #expect(TemplateChanges(from: base, to: new).text == "~ parameter grouped\n    group: \"g\" -> (none)\n")
    }
}
