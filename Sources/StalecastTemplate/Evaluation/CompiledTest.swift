import StalecastWire

extension CompiledTemplate {
    /// A condition's element made ready: literals in the form they are compared in, attributes by their place.
    enum Test: Sendable {
        case constant(Bool)
        /// Test that is never true, for the reason given.
        case impossible(String)
        case text(ConditionExpression.TextElement, ExactText.Choices, isNegated: Bool)
        /// ASCII letters small.
        case country(Set<[UInt8]>)
        case language([LanguageRange])
        case attributeText(Int, AttributeTest)
        case attributeNumber(Int, ConditionExpression.Comparison, Double)
        /// Comparison of versions with at most so many segments.
        case attributeVersion(Int, ConditionExpression.Comparison, VersionNumbers, maxSegments: Int)
        case set(ConditionExpression.SetElement, ConditionExpression.SetOperator, [ExactText])
        case firstOpen(ConditionExpression.Comparison, Timestamp)
        case now(ConditionExpression.Comparison, Timestamp)
        /// Comparison with the time in the device's zone.
        case localNow(ConditionExpression.Comparison, LocalMoment)
        /// The place of the seed, and the range.
        case percent(Int, ConditionExpression.PercentTest.Range)
    }

    /// A text operator with its literals.
    enum AttributeTest: Sendable {
        case contains([SoughtText], isNegated: Bool)
        case isOne(ExactText.Choices, trimming: Bool)
        case matches([Pattern])
    }

    /// Turns tests into ``CompiledTemplate/Test``, equal ones, attributes and seeds into one each.
    struct TestCompiler {
        let kind: TemplateKind
        private(set) var tests: [Test] = []
        /// The element of each test, for explanations. Equal tests of several conditions share a place: each is
        /// evaluated once for a request.
        private(set) var sources = Places<ConditionExpression.Test>()
        private(set) var attributes = Places<ConditionExpression.Attribute>()
        private(set) var seeds = Places<String>()

        init(kind: TemplateKind) { self.kind = kind }

        mutating func place(of test: ConditionExpression.Test) -> Int {
            let place = sources.place(of: test)
            if place == tests.count {
                let compiled = compiled(test)
                tests.append(compiled)
            }
            return place
        }

        mutating func place(ofSeed seed: String) -> Int { seeds.place(of: seed) }

        private mutating func compiled(_ test: ConditionExpression.Test) -> Test {
            switch test {
            case .constant(let isTrue): .constant(isTrue)
            case .text(.country, let codes, _): .country(Set(codes.map(LanguageRange.normalized)))
            case .text(.language, let tags, _): .language(tags.map { LanguageRange($0) })
            case .text(let element, let values, let isNegated):
                .text(element, ExactText.Choices(values), isNegated: isNegated)
            case .value(let attribute, let test): compiled(test, of: attribute)
            case .set(let element, let setOperator, let names): .set(element, setOperator, names.map { ExactText($0) })
            case .firstOpen(let comparison, let moment):
                instant(of: moment, in: moment.zone ?? "GMT") { .firstOpen(comparison, $0) }
            // A moment without a zone depends on the device: it becomes an instant at evaluation.
            case .dateTime(let comparison, let moment):
                moment.zone.map { instant(of: moment, in: $0) { .now(comparison, $0) } }
                    ?? .localNow(comparison, moment)
            case .percent(let test): .percent(place(ofSeed: test.seed), test.range)
            }
        }

        private mutating func compiled(
            _ test: ConditionExpression.ValueTest, of attribute: ConditionExpression.Attribute
        ) -> Test {
            let place = attributes.place(of: attribute)
            let isSignal = if case .customSignal = attribute { true } else { false }
            return switch test {
            case .number(let comparison, let literal): .attributeNumber(place, comparison, literal.value)
            case .version(let comparison, let literal):
                .attributeVersion(
                    place, comparison, VersionNumbers(literal),
                    maxSegments: isSignal ? VersionLiteral.maxSignalSegments : .max)
            case .text(let textOperator, let values):
                compiled(textOperator, values, of: place, trimming: isSignal && kind == .server)
            }
        }

        private func compiled(
            _ textOperator: ConditionExpression.TextOperator, _ values: [String], of attribute: Int, trimming: Bool
        ) -> Test {
            switch textOperator {
            case .contains: return .attributeText(attribute, .contains(values.map(SoughtText.init), isNegated: false))
            case .notContains: return .attributeText(attribute, .contains(values.map(SoughtText.init), isNegated: true))
            case .exactlyMatches:
                let texts = values.map { trimming ? ExactText($0).trimmed : ExactText($0) }
                return .attributeText(attribute, .isOne(ExactText.Choices(texts), trimming: trimming))
            case .matches:
                do {
                    // One pattern that cannot be compiled makes the whole test false.
                    return .attributeText(attribute, .matches(try values.map(Pattern.init(parsing:))))
                } catch {
                    return .impossible("a regular expression is not supported: \(error.reason)")
                }
            }
        }

        private func instant(of moment: LocalMoment, in name: String, _ make: (Timestamp) -> Test) -> Test {
            guard let zone = ZoneTable.zone(name) else { return .impossible("there is no time zone '\(name.shown)'") }
            return make(moment.instant(in: zone))
        }
    }
}

/// Different elements in the order in which they came, each known by its place.
struct Places<Element: Hashable & Sendable>: Sendable {
    private(set) var all: [Element] = []
    private var places: [Element: Int] = [:]

    mutating func place(of element: Element) -> Int {
        if let place = places[element] { return place }
        places[element] = all.count
        all.append(element)
        return all.count - 1
    }
}
