import StalecastWire

extension Evaluation {
    /// The verdict on the test at `place`, in words.
    mutating func explain(_ place: Int) -> Explanation.Test {
        let isTrue = holds(place)
        let source = compiler.sources.all[place]
        return Explanation.Test(element: source.names.element, holds: isTrue, reason: reason(place, source, isTrue))
    }

    private mutating func reason(_ place: Int, _ source: ConditionExpression.Test, _ isTrue: Bool) -> String {
        let (element, member) = source.names
        if case .impossible(let problem) = compiler.tests[place] { return "\(element): \(problem)" }
        if case .constant = source { return isTrue ? "always true" : "always false" }
        guard let found = found(compiler.tests[place]) else { return "\(element) is missing: it needs \(member)" }
        let complaint = isTrue ? nil : complaint(compiler.tests[place])
        if let complaint { return "\(element) is \(found), \(complaint)" }
        return "\(element) is \(found), \(isTrue ? "" : "not ")\(source.requirement)"
    }

    /// The value a test looks at; nil when the context has none.
    private mutating func found(_ test: CompiledTemplate.Test) -> String? {
        switch test {
        case .constant, .impossible: ""
        case .text(let element, _, _): text(of: element).map(Self.quoted)
        case .country: text(of: .country).map(Self.quoted)
        case .language: text(of: .language).map(Self.quoted)
        case .attributeText(let place, _), .attributeNumber(let place, _, _), .attributeVersion(let place, _, _, _):
            reading(place).text.map { Self.quoted(String(decoding: $0.bytes, as: UTF8.self)) }
        case .set(.audiences, _, _): context.audiences.map(ConditionExpression.Test.list)
        case .set(.importedSegments, _, _): context.importedSegments.map(ConditionExpression.Test.list)
        case .firstOpen: context.firstOpenTime?.description
        case .now: context.now.description
        case .localNow: context.timeZone.map { "\(context.now) in \($0.shown)" }
        case .percent(let seed, _): bucket(seed).map { "bucket \(RandomBucket.percentage($0))" }
        }
    }

    /// Reason why a test could not compare, and is false; nil when it compared.
    private mutating func complaint(_ test: CompiledTemplate.Test) -> String? {
        // A test may be false only because the steps are used up.
        if budget.isExhausted { return "and the evaluation has used up its steps" }
        switch test {
        case .attributeNumber(let place, _, _): return reading(place).number == nil ? "which is no number" : nil
        case .attributeVersion(let place, _, _, let maxSegments):
            guard let version = reading(place).version else { return "which is no version" }
            return version.segmentCount > maxSegments ? "which has more than \(maxSegments) segments" : nil
        case .attributeText(let place, .matches):
            return reading(place).scalars == nil ? "which is too long for a regular expression" : nil
        case .localNow: return context.timeZone.flatMap(ZoneTable.zone) == nil ? "which is no time zone" : nil
        default: return nil
        }
    }

    private static func quoted(_ text: String) -> String { "'\(text.shown)'" }
}

extension ConditionExpression.Test {
    /// Name of the tested element in the language, and of the context's member that it is read from.
    fileprivate var names: (element: String, member: String) {
        switch self {
        case .constant(let isTrue): ("\(isTrue)", "")
        case .text(let element, _, _): (element.rawValue, element.member)
        case .value(.appVersion, _): ("app.version", "appVersion")
        case .value(.appBuild, _): ("app.build", "appBuild")
        case .value(.userProperty(let name), _):
            ("app.userProperty['\(name.shown)']", "analyticsUserProperties.\(name.shown)")
        case .value(.customSignal(let name), _): ("app.customSignal['\(name.shown)']", "customSignals.\(name.shown)")
        case .set(let element, _, _): (element.rawValue, String(element.rawValue.dropFirst(4)))
        case .firstOpen: ("app.firstOpenTimestamp", "firstOpenTime")
        case .dateTime: ("dateTime", "timeZone")
        case .percent(let test): (test.seed.isEmpty ? "percent" : "percent('\(test.seed)')", "appInstanceId")
        }
    }

    /// Requirement of the value, to follow `is …, ` or `is …, not `.
    fileprivate var requirement: String {
        switch self {
        case .constant: ""
        case .text(_, let values, let isNegated): (isNegated ? "outside " : "in ") + Self.list(values)
        case .value(_, .version(let comparison, let version)): "\(comparison.rawValue) version \(version.text.shown)"
        case .value(_, .number(let comparison, let number)): "\(comparison.rawValue) \(number.text)"
        case .value(_, .text(let test, let values)): "what \(test.rawValue)(\(Self.list(values))) asks for"
        case .set(_, let test, let names): "what \(test.rawValue)(\(Self.list(names))) asks for"
        case .firstOpen(let comparison, let moment): "\(comparison.rawValue) \(moment.text(defaultZone: "GMT"))"
        case .dateTime(let comparison, let moment):
            "\(comparison.rawValue) \(moment.text(defaultZone: "the device's zone"))"
        case .percent(let test): test.range.text
        }
    }

    /// The first few of `values`.
    fileprivate static func list(_ values: [String]) -> String {
        let shown = values.prefix(5).map { "'\($0.shown)'" } + (values.count > 5 ? ["… \(values.count - 5) more"] : [])
        return "[\(shown.joined(separator: ", "))]"
    }
}

extension ConditionExpression.TextElement {
    fileprivate var member: String {
        switch self {
        case .appID: "appId"
        case .operatingSystem: "appId, such as 1:123456789012:ios:0a1b2c"
        case .country: "countryCode"
        case .language: "languageCode"
        case .installation: "appInstanceId"
        case .operatingSystemAndVersion, .browserAndVersion: String(rawValue.dropFirst(4))
        }
    }
}

extension LocalMoment {
    fileprivate func text(defaultZone: String) -> String {
        let moment = Timestamp(microseconds: secondsAsUTC * 1_000_000).description.prefix(19)
        return "\(moment) in \(zone ?? defaultZone)"
    }
}

extension ConditionExpression.PercentTest.Range {
    fileprivate var text: String {
        let percentage = RandomBucket.percentage
        return switch self {
        case .atMost(let bound): "<= \(percentage(bound))"
        case .above(let bound): "> \(percentage(bound))"
        case .between(let lower, let upper): "between \(percentage(lower)) and \(percentage(upper))"
        }
    }
}
