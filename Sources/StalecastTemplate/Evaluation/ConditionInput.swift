/// One thing that conditions read of a fetch.
package enum ConditionInput: Sendable, Hashable {
    case appID
    case platform
    case country
    case language
    case firstOpen
    case attribute(ConditionExpression.Attribute)
}

extension CompiledTemplate {
    /// Everything that the used conditions read of a fetch, each once: two fetches that say the same of all of it have
    /// one outcome. nil where an outcome also depends on the instance's id or on the time, of which no two fetches have
    /// the same.
    ///
    /// A fetch does not name audiences, segments, operating system or browser, so they are not inputs.
    static func inputs(
        of conditions: [Condition], _ compiler: TestCompiler, hasManagedValues: Bool
    ) -> [ConditionInput]? {
        if hasManagedValues { return nil }
        var inputs: [ConditionInput] = []
        // Sorted, because the order of a set differs from run to run.
        for test in Set(conditions.flatMap(\.tests)).sorted() {
            guard let read = input(of: compiler.tests[test], compiler) else { return nil }
            for input in read where !inputs.contains(input) { inputs.append(input) }
        }
        return inputs
    }

    /// Nothing or one input; nil for the id and the time.
    private static func input(of test: Test, _ compiler: TestCompiler) -> [ConditionInput]? {
        switch test {
        case .constant, .impossible, .set, .text(.operatingSystemAndVersion, _, _), .text(.browserAndVersion, _, _): []
        // A client states its platform, or it is read from the app id.
        case .text(.operatingSystem, _, _): [.appID, .platform]
        case .text(.appID, _, _): [.appID]
        case .country: [.country]
        case .language: [.language]
        case .firstOpen: [.firstOpen]
        case .attributeText(let place, _), .attributeNumber(let place, _, _),
            .attributeVersion(let place, _, _, maxSegments: _):
            [.attribute(compiler.attributes.all[place])]
        case .now, .localNow, .percent, .text: nil
        }
    }
}
