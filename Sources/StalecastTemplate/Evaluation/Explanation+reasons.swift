import StalecastWire

extension Evaluation {
    /// The verdict on the test at `place`, in words.
    mutating func explain(_ place: Int) -> Explanation.Test {
        let isTrue = holds(place)
        let source = compiler.sources[place]
        return Explanation.Test(element: source.element, holds: isTrue, reason: reason(place, source, isTrue))
    }

    private mutating func reason(_ place: Int, _ source: ConditionExpression.Test, _ isTrue: Bool) -> String {
        let element = source.element
        if case .impossible(let problem) = compiler.tests[place] { return "\(element): \(problem)" }
        if case .constant = source { return isTrue ? "always true" : "always false" }
        guard let found = found(compiler.tests[place]) else {
            return "\(element) is missing: it needs \(source.member)"
        }
        let complaint = isTrue ? nil : complaint(compiler.tests[place])
        if let complaint { return "\(element) is \(found), \(complaint)" }
        return "\(element) is \(found), \(isTrue ? "" : "not ")\(source.requirement)"
    }

    /// The value a test looks at; nil when the context has none.
    private mutating func found(_ test: CompiledTemplate.Test) -> String? {
        switch test {
        case .constant, .impossible: ""
        case .platform: context.platform.map(Self.quoted)
        case .text(let attribute, _, _): text(of: attribute).map(Self.quoted)
        case .country: context.countryCode.map(Self.quoted)
        case .language: context.languageCode.map(Self.quoted)
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
            let limit = maxSegments ?? .max
            return version.segmentCount > limit ? "which has more than \(limit) segments" : nil
        case .attributeText(let place, .matches):
            return reading(place).scalars == nil ? "which is too long for a regular expression" : nil
        case .localNow: return context.timeZone.flatMap(ZoneTable.zone) == nil ? "which is no time zone" : nil
        default: return nil
        }
    }

    private static func quoted(_ text: String) -> String { "'\(text.shown)'" }
}

extension ConditionExpression.Test {
    /// Name of the tested element in the language.
    var element: String {
        switch self {
        case .constant(let isTrue): "\(isTrue)"
        case .appID: "app.id"
        case .operatingSystem: "device.os"
        case .appVersion: "app.version"
        case .appBuild: "app.build"
        case .userProperty(let name, _): "app.userProperty['\(name.shown)']"
        case .customSignal(let name, _), .customSignalVersion(let name, _, _): "app.customSignal['\(name.shown)']"
        case .audiences: "app.audiences"
        case .importedSegments: "app.importedSegments"
        case .country: "device.country"
        case .language: "device.language"
        case .installation: "app.firebaseInstallationId"
        case .firstOpen: "app.firstOpenTimestamp"
        case .dateTime: "dateTime"
        case .percent(let test): test.seed.isEmpty ? "percent" : "percent('\(test.seed)')"
        case .operatingSystemAndVersion: "app.operatingSystemAndVersion"
        case .browserAndVersion: "app.browserAndVersion"
        }
    }

    /// The context's member it is read from.
    fileprivate var member: String {
        switch self {
        case .constant: ""
        case .appID: "appId"
        case .operatingSystem: "appId, such as 1:123456789012:ios:0a1b2c"
        case .appVersion: "appVersion"
        case .appBuild: "appBuild"
        case .userProperty(let name, _): "analyticsUserProperties.\(name.shown)"
        case .customSignal(let name, _), .customSignalVersion(let name, _, _): "customSignals.\(name.shown)"
        case .audiences: "audiences"
        case .importedSegments: "importedSegments"
        case .country: "countryCode"
        case .language: "languageCode"
        case .installation, .percent: "appInstanceId"
        case .firstOpen: "firstOpenTime"
        case .dateTime: "timeZone"
        case .operatingSystemAndVersion: "operatingSystemAndVersion"
        case .browserAndVersion: "browserAndVersion"
        }
    }

    /// Requirement of the value, to follow `is …, ` or `is …, not `.
    fileprivate var requirement: String {
        switch self {
        case .constant: ""
        case .appID(let membership), .operatingSystem(let membership), .operatingSystemAndVersion(let membership),
            .browserAndVersion(let membership):
            (membership.isNegated ? "outside " : "in ") + Self.list(membership.values)
        case .appVersion(.compare(let comparison, let version)), .appBuild(.compare(let comparison, let version)),
            .customSignalVersion(_, let comparison, let version):
            "\(comparison.rawValue) version \(version.text.shown)"
        case .userProperty(_, .compare(let comparison, let number)),
            .customSignal(_, .compare(let comparison, let number)):
            "\(comparison.rawValue) \(number.text)"
        case .appVersion(.text(let test, let values)), .appBuild(.text(let test, let values)),
            .userProperty(_, .text(let test, let values)), .customSignal(_, .text(let test, let values)):
            "what \(test.rawValue)(\(Self.list(values))) asks for"
        case .audiences(let test, let names), .importedSegments(let test, let names):
            "what \(test.rawValue)(\(Self.list(names))) asks for"
        case .country(let values), .language(let values), .installation(let values): "in \(Self.list(values))"
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
