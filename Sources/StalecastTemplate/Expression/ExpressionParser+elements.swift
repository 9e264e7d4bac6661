import StalecastWire

extension ExpressionParser {
    /// Firebase's limits of lists and texts in conditions.
    fileprivate enum Limit {
        /// Values of a text operator.
        static let textValues = 100
        static let installations = 50
        /// Most values of lists without a documented limit; our own.
        static let otherValues = 1000
        static let signalKeyLength = 250
        static let signalValueLength = 500
        /// Longest regular expression for a custom signal.
        static let signalPatternLength = 250
        static let seedLength = 32
    }
}

extension ExpressionParser {
    /// The test of the element `name`, whose name has been taken.
    mutating func elementTest(_ name: String, _ start: Int) throws(ExpressionError) -> Test {
        if name == "app.customSignal" {
            let signal = try signalName()
            return .value(.customSignal(signal), try valueTest(isSignal: true))
        }
        try checkClient(name, start)
        if let element = ConditionExpression.TextElement(rawValue: name) { return try textTest(element) }
        if let element = ConditionExpression.SetElement(rawValue: name) { return try setTest(element) }
        switch name {
        case "app.version": return .value(.appVersion, try versionTest())
        case "app.build": return .value(.appBuild, try versionTest())
        case "app.userProperty":
            let property = try bracketedName("a user property")
            return .value(.userProperty(property), try valueTest())
        case "app.firstOpenTimestamp": return .firstOpen(try momentComparison(), try moment())
        default: throw error("'\(name.shown)' is not an element", at: start)
        }
    }

    private mutating func textTest(_ element: ConditionExpression.TextElement) throws(ExpressionError) -> Test {
        switch element {
        case .appID: return try membership(element, "an app id in quotes") { $0.isEmpty ? nil : $0 }
        case .operatingSystem:
            let platforms = ["ios", "android", "web"]
            return try membership(element, "'ios', 'android' or 'web'") { platforms.contains($0) ? $0 : nil }
        case .country: return .text(element, try inList(of: "a two-letter country code", Self.countryCode))
        case .language: return .text(element, try inList(of: "a language tag", Self.languageTag))
        case .installation:
            let limit = Limit.installations
            return .text(element, try inList(of: "a Firebase installation ID", limit: limit, Self.installationID))
        case .operatingSystemAndVersion, .browserAndVersion: return try webMembership(element)
        }
    }

    mutating func percentTest() throws(ExpressionError) -> Test {
        var seed = ""
        if try skipIf("(") {
            seed = try takeText("a seed of at most 32 characters of - _ . 0-9 a-z A-Z", Self.seed)
            try skip(")")
        }
        if case .word = token.kind {
            try skipKeyword("between")
            return .percent(ConditionExpression.PercentTest(seed: seed, try percentInterval()))
        }
        let comparison = try takeComparison([.lessOrEqual, .greater])
        let bound = try percentage()
        return .percent(
            ConditionExpression.PercentTest(seed: seed, comparison == .greater ? .above(bound) : .atMost(bound)))
    }

    private mutating func percentInterval() throws(ExpressionError) -> ConditionExpression.PercentTest.Range {
        let lower = try percentage()
        try skipKeyword("and")
        let start = token.start
        let upper = try percentage()
        guard lower <= upper else { throw error("the upper bound is below the lower one", at: start) }
        return .between(lower, upper)
    }

    private mutating func percentage() throws(ExpressionError) -> UInt32 {
        try takeNumber("a percentage from 0 to 100 with at most 6 decimals", ConditionExpression.PercentTest.micros)
    }

    mutating func dateTimeTest() throws(ExpressionError) -> Test {
        let comparison = try momentComparison()
        // `dateTime < dateTime('…')`: the second word begins the literal.
        try skipKeyword("dateTime")
        return .dateTime(comparison, try moment())
    }

    private mutating func momentComparison() throws(ExpressionError) -> ConditionExpression.Comparison {
        try takeComparison([.less, .lessOrEqual, .greaterOrEqual, .greater])
    }

    private mutating func moment() throws(ExpressionError) -> LocalMoment {
        try skip("(")
        let start = token.start
        let text = try takeText("a date such as '2026-03-01T09:00:00'") { $0 }
        let zone = try skipIf(",") ? try takeText("a time zone such as 'Europe/Paris'", Self.zoneName) : nil
        guard let moment = LocalMoment(text, zone: zone) else {
            throw error("'\(text.shown)' is not a date of the form yyyy-MM-ddTHH:mm:ss", at: start)
        }
        try skip(")")
        return moment
    }

    /// `version(app.customSignal['name'])`, its first word taken.
    mutating func customSignalVersionTest() throws(ExpressionError) -> Test {
        try skip("(")
        try skipKeyword("app")
        try skip(".")
        try skipKeyword("customSignal")
        let name = try signalName()
        try skip(")")
        let comparison = try takeComparison()
        let limit = VersionLiteral.maxSignalSegments
        let version = try takeText("a version of at most \(limit) numbers and dots") { text in
            VersionLiteral(text).flatMap { $0.segments.count <= limit ? $0 : nil }
        }
        return .value(.customSignal(name), .version(comparison, version))
    }
}

extension ExpressionParser {
    private mutating func membership(
        _ element: ConditionExpression.TextElement, _ what: String, _ check: (String) -> String?
    ) throws(ExpressionError) -> Test {
        if case .word("in") = token.kind { return .text(element, try inList(of: what, check)) }
        let comparison = try takeComparison([.equal, .notEqual])
        return .text(element, [try takeText(what, check)], isNegated: comparison == .notEqual)
    }

    private mutating func inList(
        of what: String, limit: Int = Limit.otherValues, _ check: (String) -> String?
    ) throws(ExpressionError) -> [String] {
        guard case .word("in") = token.kind else { throw expected("'in'") }
        try advance()
        return try takeList(of: what, limit: limit, check)
    }

    /// `.inOne([…])`: no document names the operators of web conditions; this is the one their console is known by.
    private mutating func webMembership(_ element: ConditionExpression.TextElement) throws(ExpressionError) -> Test {
        try skip(".")
        let start = token.start
        let name = try takeWord("'inOne' or 'notInOne'")
        guard name == "inOne" || name == "notInOne" else {
            throw error("'inOne' or 'notInOne' is expected, not '\(name.shown)'", at: start)
        }
        return .text(element, try argumentList(limit: Limit.otherValues), isNegated: name == "notInOne")
    }

    private mutating func setTest(_ element: ConditionExpression.SetElement) throws(ExpressionError) -> Test {
        try skip(".")
        let setOperator: ConditionExpression.SetOperator = try takeOperator()
        return .set(element, setOperator, try argumentList(limit: Limit.otherValues))
    }

    private mutating func versionTest() throws(ExpressionError) -> ValueTest {
        try skip(".")
        guard case .comparison(let comparison) = token.kind else {
            let textOperator: ConditionExpression.TextOperator = try takeOperator()
            let start = token.start
            let values = try argumentList(limit: Limit.textValues)
            if textOperator == .matches { try check(patterns: values, at: start) }
            return .text(textOperator, values)
        }
        try advance()
        try skip("(")
        let versions = try takeList(of: "a version such as '2.1.0'", limit: 1, VersionLiteral.init)
        try skip(")")
        return .version(comparison, versions[0])
    }

    private mutating func valueTest(isSignal: Bool = false) throws(ExpressionError) -> ValueTest {
        guard try skipIf(".") else {
            let comparison = try takeComparison()
            let what = "a number (texts are compared with .exactlyMatches)"
            return .number(comparison, try takeNumber(what, NumericLiteral.init))
        }
        let textOperator: ConditionExpression.TextOperator = try takeOperator()
        let longest =
            textOperator == .matches
            ? Limit.signalPatternLength : Limit.signalValueLength
        let what = isSignal ? "a text of at most \(longest) characters" : "a text in quotes"
        let start = token.start
        let values = try argumentList(of: what, limit: Limit.textValues) {
            // Counts scalars: one `Character` can hold any number of them.
            !isSignal || $0.unicodeScalars.count <= longest ? $0 : nil
        }
        if textOperator == .matches { try check(patterns: values, at: start) }
        return .text(textOperator, values)
    }

    /// Refuses invalid and too large regular expressions. The list begins at `start`.
    private mutating func check(patterns: [String], at start: Int) throws(ExpressionError) {
        for pattern in patterns {
            do {
                patternSize += try Pattern.size(of: pattern)
            } catch {
                throw self.error("the regular expression '\(pattern.shown)' is refused: \(error.reason)", at: start)
            }
            // After each: a few bytes can ask for thousands of instructions, and what is refused must be cheap too.
            if patternSize > ConditionExpression.maxPatternSize {
                throw error("the regular expressions of one condition are too large together", at: start)
            }
        }
    }

    private mutating func takeOperator<Operator: RawRepresentable<String> & CaseIterable>()
        throws(ExpressionError) -> Operator
    {
        guard case .word(let word) = token.kind, let found = Operator(rawValue: word) else {
            throw expected("an operator (\(Operator.allCases.map(\.rawValue).joined(separator: ", ")))")
        }
        try advance()
        return found
    }

    private mutating func argumentList(
        of what: String = "a text in quotes", limit: Int, _ check: (String) -> String? = { $0 }
    ) throws(ExpressionError) -> [String] {
        try skip("(")
        let values = try takeList(of: what, limit: limit, check)
        try skip(")")
        return values
    }

    private mutating func signalName() throws(ExpressionError) -> String {
        try bracketedName("a custom signal", longest: Limit.signalKeyLength)
    }

    private mutating func bracketedName(_ owner: String, longest: Int = .max) throws(ExpressionError) -> String {
        try skip("[")
        let what = "the name of \(owner) in quotes" + (longest == .max ? "" : ", at most \(longest) characters,")
        let name = try takeText(what) { !$0.isEmpty && $0.unicodeScalars.count <= longest ? $0 : nil }
        try skip("]")
        return name
    }
}

/// Checks of texts; each gives the text back, or nil when it is not allowed.
extension ExpressionParser {
    private static func countryCode(_ text: String) -> String? {
        // 0xDF takes away the bit by which ASCII letters differ in case.
        text.utf8.count == 2 && text.utf8.allSatisfy { (0x41...0x5A).contains($0 & 0xDF) } ? text : nil
    }

    private static func languageTag(_ text: String) -> String? {
        let parts = text.split(omittingEmptySubsequences: false) { $0 == "-" || $0 == "_" }
        let isTag = parts.allSatisfy { part in
            (1...8).contains(part.utf8.count) && part.utf8.allSatisfy(\.isASCIIAlphanumeric)
        }
        return isTag ? text : nil
    }

    /// 22 characters with one of `cdef` first, or the 11 of the older instance IDs.
    private static func installationID(_ text: String) -> String? {
        let isLegal = text.utf8.allSatisfy { $0.isASCIIAlphanumeric || "-_".utf8.contains($0) }
        let isCurrent = text.utf8.count == 22 && text.utf8.first.map("cdef".utf8.contains) == true
        return isLegal && (isCurrent || text.utf8.count == 11) ? text : nil
    }

    private static func seed(_ text: String) -> String? {
        let isLegal = text.utf8.allSatisfy { $0.isASCIIAlphanumeric || "-_.".utf8.contains($0) }
        return isLegal && text.utf8.count <= Limit.seedLength ? text : nil
    }

    private static func zoneName(_ text: String) -> String? { LocalMoment.isZoneName(text) ? text : nil }
}
