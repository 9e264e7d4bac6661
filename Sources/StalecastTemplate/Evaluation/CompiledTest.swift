import StalecastWire

extension CompiledTemplate {
    /// A condition's element made ready: literals in the form they are compared in, attributes by their place.
    enum Test: Sendable {
        case constant(Bool)
        /// Test that is never true, for the reason given.
        case impossible(String)
        case platform(ExactText.Choices, isNegated: Bool)
        case text(TextAttribute, ExactText.Choices, isNegated: Bool)
        /// ASCII letters small.
        case country(Set<[UInt8]>)
        case language([LanguageRange])
        case attributeText(Int, CompiledTemplate.AttributeTest)
        case attributeNumber(Int, ConditionExpression.Comparison, Double)
        /// Comparison of versions with at most so many segments; nil is any number.
        case attributeVersion(Int, ConditionExpression.Comparison, VersionNumbers, maxSegments: Int?)
        case set(SetAttribute, ConditionExpression.SetOperator, [ExactText])
        case firstOpen(ConditionExpression.Comparison, Timestamp)
        case now(ConditionExpression.Comparison, Timestamp)
        /// Comparison with the time in the device's zone.
        case localNow(ConditionExpression.Comparison, LocalMoment)
        /// The place of the seed, and the range.
        case percent(Int, ConditionExpression.PercentTest.Range)

        /// An attribute that is compared with whole texts.
        enum TextAttribute: Sendable, CaseIterable {
            case appID
            case installation
            case operatingSystemAndVersion
            case browserAndVersion
        }

        enum SetAttribute: Sendable {
            case audiences
            case importedSegments
        }
    }

    /// A text operator with its literals.
    enum AttributeTest: Sendable {
        case contains([SoughtText], isNegated: Bool)
        case isOne(ExactText.Choices, trimming: Bool)
        case matches([Pattern])
    }

    /// Attribute that conditions can read as text, number or version.
    enum Attribute: Hashable, Sendable {
        case appVersion
        case appBuild
        case userProperty(String)
        case customSignal(String)
    }

    /// Turns tests into ``CompiledTemplate.Test``, equal ones, attributes and seeds into one each.
    struct TestCompiler {
        let kind: TemplateKind
        private(set) var tests: [CompiledTemplate.Test] = []
        /// The element of each test, for explanations.
        private(set) var sources: [ConditionExpression.Test] = []
        private(set) var attributes: [CompiledTemplate.Attribute] = []
        private(set) var seeds: [String] = []
        private var testPlaces: [ConditionExpression.Test: Int] = [:]
        private var attributePlaces: [CompiledTemplate.Attribute: Int] = [:]
        private var seedPlaces: [String: Int] = [:]

        init(kind: TemplateKind) { self.kind = kind }

        /// The place of `test`.
        mutating func place(of test: ConditionExpression.Test) -> Int {
            // Equal tests of several conditions share a place: each is evaluated once for a request.
            if let place = testPlaces[test] { return place }
            let compiled = compiled(test)
            testPlaces[test] = tests.count
            tests.append(compiled)
            sources.append(test)
            return tests.count - 1
        }

        /// The place of a percent seed.
        mutating func place(ofSeed seed: String) -> Int {
            if let place = seedPlaces[seed] { return place }
            seedPlaces[seed] = seeds.count
            seeds.append(seed)
            return seeds.count - 1
        }

        private mutating func place(of attribute: CompiledTemplate.Attribute) -> Int {
            if let place = attributePlaces[attribute] { return place }
            attributePlaces[attribute] = attributes.count
            attributes.append(attribute)
            return attributes.count - 1
        }

        private mutating func compiled(_ test: ConditionExpression.Test) -> CompiledTemplate.Test {
            switch test {
            case .constant(let isTrue): .constant(isTrue)
            case .appID(let membership): text(.appID, membership)
            case .operatingSystem(let membership):
                .platform(ExactText.Choices(membership.values), isNegated: membership.isNegated)
            case .appVersion(let test): compiled(test, of: place(of: .appVersion))
            case .appBuild(let test): compiled(test, of: place(of: .appBuild))
            case .userProperty(let name, let test): compiled(test, of: place(of: .userProperty(name)), trimming: false)
            case .customSignal(let name, let test):
                compiled(test, of: place(of: .customSignal(name)), trimming: kind == .server)
            case .customSignalVersion(let name, let comparison, let literal):
                .attributeVersion(
                    place(of: .customSignal(name)), comparison, VersionNumbers(literal),
                    maxSegments: VersionLiteral.maxSignalSegments)
            case .audiences(let setOperator, let names): .set(.audiences, setOperator, names.map { ExactText($0) })
            case .importedSegments(let setOperator, let names):
                .set(.importedSegments, setOperator, names.map { ExactText($0) })
            case .country(let codes): .country(Set(codes.map(LanguageRange.normalized)))
            case .language(let tags): .language(tags.map { LanguageRange($0) })
            case .installation(let ids): text(.installation, ConditionExpression.Membership(ids))
            case .firstOpen(let comparison, let moment): compiled(firstOpen: comparison, moment)
            case .dateTime(let comparison, let moment): compiled(now: comparison, moment)
            case .percent(let test): .percent(place(ofSeed: test.seed), test.range)
            case .operatingSystemAndVersion(let membership): text(.operatingSystemAndVersion, membership)
            case .browserAndVersion(let membership): text(.browserAndVersion, membership)
            }
        }

        private func text(
            _ attribute: CompiledTemplate.Test.TextAttribute, _ membership: ConditionExpression.Membership
        ) -> CompiledTemplate.Test {
            .text(attribute, ExactText.Choices(membership.values), isNegated: membership.isNegated)
        }

        private func compiled(_ test: ConditionExpression.VersionTest, of attribute: Int) -> CompiledTemplate.Test {
            switch test {
            case .compare(let comparison, let literal):
                .attributeVersion(attribute, comparison, VersionNumbers(literal), maxSegments: nil)
            case .text(let textOperator, let values): compiled(textOperator, values, of: attribute, trimming: false)
            }
        }

        private func compiled(_ test: ConditionExpression.ValueTest, of attribute: Int, trimming: Bool)
            -> CompiledTemplate.Test
        {
            switch test {
            case .compare(let comparison, let literal): .attributeNumber(attribute, comparison, literal.value)
            case .text(let textOperator, let values): compiled(textOperator, values, of: attribute, trimming: trimming)
            }
        }

        private func compiled(
            _ textOperator: ConditionExpression.TextOperator, _ values: [String], of attribute: Int, trimming: Bool
        ) -> CompiledTemplate.Test {
            switch textOperator {
            case .contains: return .attributeText(attribute, .contains(values.map(SoughtText.init), isNegated: false))
            case .notContains: return .attributeText(attribute, .contains(values.map(SoughtText.init), isNegated: true))
            case .exactlyMatches:
                let texts = values.map { trimming ? ExactText($0).trimmed : ExactText($0) }
                return .attributeText(attribute, .isOne(ExactText.Choices(texts), trimming: trimming))
            case .matches:
                do {
                    var patterns: [Pattern] = []
                    // One pattern that cannot be compiled makes the whole test false.
                    for value in values { patterns.append(try Pattern(parsing: value)) }
                    return .attributeText(attribute, .matches(patterns))
                } catch {
                    return .impossible("a regular expression is not supported: \(error.reason)")
                }
            }
        }

        private func compiled(firstOpen comparison: ConditionExpression.Comparison, _ moment: LocalMoment)
            -> CompiledTemplate.Test
        {
            let name = moment.zone ?? "GMT"
            guard let zone = ZoneTable.zone(name) else { return .impossible("there is no time zone '\(name.shown)'") }
            return .firstOpen(comparison, moment.instant(in: zone))
        }

        private func compiled(now comparison: ConditionExpression.Comparison, _ moment: LocalMoment)
            -> CompiledTemplate.Test
        {
            // A moment without a zone depends on the device: it becomes an instant at evaluation.
            guard let name = moment.zone else { return .localNow(comparison, moment) }
            guard let zone = ZoneTable.zone(name) else { return .impossible("there is no time zone '\(name.shown)'") }
            return .now(comparison, moment.instant(in: zone))
        }
    }
}
