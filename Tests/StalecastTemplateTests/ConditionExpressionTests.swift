import StalecastTemplate
import StalecastWire
import Testing

@Suite struct ConditionExpressionTests {
    private func parse(_ text: String, _ kind: TemplateKind = .client) throws -> [ConditionExpression.Test] {
        try ConditionExpression(parsing: text, kind: kind).tests
    }

    private static let paris = LocalMoment("2026-01-01T00:00:00", zone: "Europe/Paris")
    private static let noZone = LocalMoment("2026-03-01T09:00:00", zone: nil)

    static let elements: [(String, ConditionExpression.Test?)] = [
        ("true", .constant(true)), ("FALSE", .constant(false)),
        ("app.id == '1:123456789012:ios:abcdef'", .text(.appID, ["1:123456789012:ios:abcdef"])),
        ("app.id != \"x\"", .text(.appID, ["x"], isNegated: true)),
        ("app.id in ['x', 'y']", .text(.appID, ["x", "y"])),
        ("device.os=='ios'", .text(.operatingSystem, ["ios"])),
        ("device.os in ['android','web']", .text(.operatingSystem, ["android", "web"])),
        (
            "app.version.>=(['2.1.0'])",
            VersionLiteral("2.1.0").map { .value(.appVersion, .version(.greaterOrEqual, $0)) }
        ),
        ("app.version.<( [ '1' ] )", VersionLiteral("1").map { .value(.appVersion, .version(.less, $0)) }),
        ("app.version.!=(['1..2'])", VersionLiteral("1..2").map { .value(.appVersion, .version(.notEqual, $0)) }),
        ("app.version.matches(['^1\\.[0-9]+$'])", .value(.appVersion, .text(.matches, ["^1\\.[0-9]+$"]))),
        ("app.build.contains(['12', '13'])", .value(.appBuild, .text(.contains, ["12", "13"]))),
        ("app.build.==(['12'])", VersionLiteral("12").map { .value(.appBuild, .version(.equal, $0)) }),
        (
            "app.userProperty['plan'].exactlyMatches(['pro'])",
            .value(.userProperty("plan"), .text(.exactlyMatches, ["pro"]))
        ),
        (
            "app.userProperty['level'] >= 10",
            NumericLiteral("10").map { .value(.userProperty("level"), .number(.greaterOrEqual, $0)) }
        ),
        (
            "app.userProperty['level']<-.5",
            NumericLiteral("-.5").map { .value(.userProperty("level"), .number(.less, $0)) }
        ),
        (
            "app.customSignal['city'].notContains(['york'])",
            .value(.customSignal("city"), .text(.notContains, ["york"]))
        ),
        (
            "app.customSignal['n'] != +2.50",
            NumericLiteral("+2.50").map { .value(.customSignal("n"), .number(.notEqual, $0)) }
        ),
        (
            "version(app.customSignal['sdk']) >= '1.2.0'",
            VersionLiteral("1.2.0").map { .value(.customSignal("sdk"), .version(.greaterOrEqual, $0)) }
        ),
        (
            "app.audiences.inAtLeastOne(['Buyers', 'All \\'new\\' users'])",
            .set(.audiences, .inAtLeastOne, ["Buyers", "All 'new' users"])
        ),
        ("app.importedSegments.notInAll(['s'])", .set(.importedSegments, .notInAll, ["s"])),
        ("device.country in ['US','ca']", .text(.country, ["US", "ca"])),
        ("device.language in ['en-US', 'fr', 'zh_Hans_CN']", .text(.language, ["en-US", "fr", "zh_Hans_CN"])),
        ("app.firebaseInstallationId in ['cAbCdEfGhIjKlMnOpQrS-_']", .text(.installation, ["cAbCdEfGhIjKlMnOpQrS-_"])),
        ("firebaseInstallationId in ['Abcdefghijk']", .text(.installation, ["Abcdefghijk"])),
        ("app.firstOpenTimestamp > ('2026-01-01T00:00:00','Europe/Paris')", paris.map { .firstOpen(.greater, $0) }),
        ("app.firstOpenTimestamp <= ('2026-03-01T09:00:00')", noZone.map { .firstOpen(.lessOrEqual, $0) }),
        ("dateTime >= dateTime('2026-03-01T09:00:00')", noZone.map { .dateTime(.greaterOrEqual, $0) }),
        ("datetime < DATETIME('2026-01-01T00:00:00', 'Europe/Paris')", paris.map { .dateTime(.less, $0) }),
        ("percent <= 10", .percent(ConditionExpression.PercentTest(.atMost(10_000_000)))),
        ("Percent('s1') > 50.000001", .percent(ConditionExpression.PercentTest(seed: "s1", .above(50_000_001)))),
        ("percent('') between 0 and 25.5", .percent(ConditionExpression.PercentTest(.between(0, 25_500_000)))),
        (
            "PERCENT ( 'a-b_c.9' ) BETWEEN 99.9 AND 100",
            .percent(ConditionExpression.PercentTest(seed: "a-b_c.9", .between(99_900_000, 100_000_000)))
        ),
        ("app.browserAndVersion.inOne(['Chrome-120'])", .text(.browserAndVersion, ["Chrome-120"])),
        ("app.operatingSystemAndVersion.notInOne(['x'])", .text(.operatingSystemAndVersion, ["x"], isNegated: true)),
    ]

    @Test(arguments: elements)
    func elementIsUnderstood(text: String, expected: ConditionExpression.Test?) throws {
        #expect(try parse(text) == [#require(expected)])
        #expect(try parse(" \t\(text)\n && \(text) ").count == 2)
    }

    @Test func conjunctionKeepsItsOrder() throws {
        let tests = try parse("device.os == 'ios' && device.country in ['FR'] && percent <= 0.000001")
        #expect(
            tests == [
                .text(.operatingSystem, ["ios"]), .text(.country, ["FR"]),
                .percent(ConditionExpression.PercentTest(.atMost(1))),
            ])
    }

    @Test func backslashesOfPatternsStay() throws {
        #expect(
            try parse(#"app.version.matches(['a\\', '\d\'\\\'', "it's\""])"#) == [
                .value(.appVersion, .text(.matches, [#"a\\"#, #"\d'\\'"#, "it's\""]))
            ])
    }

    @Test(arguments: [
        ("", 0, "an element"), ("   ", 3, "an element"),
        ("true ||", 5, "Expected exactly one term in OR condition here"),
        ("true || false", 5, "Expected exactly one term in OR condition here"),
        ("!true", 0, "NOT condition is not allowed here"), ("true && !(false)", 8, "NOT condition is not allowed here"),
        ("(true)", 0, "Parentheses around conditions are not allowed here"),
        ("true && (percent <= 1)", 8, "Parentheses"), ("true &&", 5, "blank on both sides"),
        ("true && ", 8, "an element"),
        ("true&& true", 4, "blank on both sides"), ("true &&true", 5, "blank on both sides"),
        ("&& true", 0, "an element"),
        ("true true", 5, "'&&' or the end"), ("true & true", 5, "'&'"), ("true | true", 5, "'|'"),
        ("truefalse", 0, "not an element"),
        ("é", 0, "'é'"), ("app.id == 'é' && ü", 17, "'ü'"), ("app.id = 'x'", 7, "'='"),
        ("app.id == x", 10, "app id in quotes"),
        ("app.id == ''", 10, "app id"), ("app.id > 'x'", 7, "'==' or '!='"),
        ("app.ID == 'x'", 0, "'app.ID' is not an element"),
        ("App.id == 'x'", 0, "'App' is not an element"), ("app", 3, "'.'"), ("app.", 4, "name of an element"),
        ("app.predictionScores > 1", 0, "not an element"), ("device.os == 'beos'", 13, "'ios'"),
        ("device.country in []", 19, "country code"), ("device.country in ['USA']", 19, "country code"),
        ("device.country == 'US'", 15, "'in'"), ("device.country in 'US'", 18, "'['"),
        ("device.country in ['US'", 23, "']'"),
        ("device.country in ['US',]", 24, "country code"), ("device.language in ['']", 20, "language tag"),
        ("app.version >= '1'", 12, "'.'"), ("app.version.>=('1')", 15, "'['"),
        ("app.version.>=(['1','2'])", 20, "at most 1"),
        ("app.version.>=(['1.x'])", 16, "version"), ("app.version.>=(['1.'])", 16, "version"),
        ("app.version.like(['1'])", 12, "exactlyMatches"),
        ("app.userProperty['a'] == 'b'", 25, "a number"), ("app.userProperty[''] == 1", 17, "name of a user property"),
        ("app.userProperty.a == 1", 16, "'['"), ("app.userProperty['a'] == 123456789012345678901", 25, "a number"),
        ("app.customSignal['a'].x(['b'])", 22, "an operator"),
        ("version(app.customSignal['a']) > '1.2.3.4.5.6'", 33, "version of at most 5"),
        ("version(app.userProperty['a']) > '1'", 12, "'customSignal'"),
        ("app.firebaseInstallationId in ['x']", 31, "installation ID"),
        ("app.firebaseInstallationId in ['gAbCdEfGhIjKlMnOpQrS-_']", 31, "installation ID"),
        ("dateTime == dateTime('2026-01-01T00:00:00')", 9, "'<'"),
        ("dateTime < '2026-01-01T00:00:00'", 11, "'dateTime'"),
        ("dateTime < dateTime('2026-02-29T00:00:00')", 20, "not a date"),
        ("dateTime < dateTime('2026-01-01')", 20, "not a date"),
        ("dateTime < dateTime('2026-01-01T00:00:00Z')", 20, "not a date"),
        ("dateTime < dateTime('2026-01-01T24:00:00')", 20, "not a date"),
        ("dateTime < dateTime('2026-01-01T00:00:00','+01:00')", 42, "time zone"),
        ("dateTime < dateTime('2026-01-01T00:00:00','a//b')", 42, "time zone"),
        ("percent", 7, "'<=' or '>'"), ("percent < 5", 8, "'<=' or '>'"), ("percent <= 101", 11, "percentage"),
        ("percent <= -1", 11, "percentage"),
        ("percent <= 100.000001", 11, "percentage"), ("percent <= 1.1234567", 11, "percentage"),
        ("percent <= 99999999999999999999999", 11, "percentage"),
        ("percent between 5 and 4", 22, "upper bound"), ("percent between 5", 17, "'and'"),
        ("percent('a b') <= 1", 8, "a seed"),
        ("percent('123456789012345678901234567890123') <= 1", 8, "a seed"), ("percent <= 1x", 12, "'&&' or the end"),
        ("app.id == 'x", 10, "not closed"), ("app.id == 'x\\'", 10, "not closed"),
        ("app.id == 'a\r\nevent: x'", 12, "control character"),
        ("app.id == '\0'", 11, "control character"),
    ])
    func errorHasItsPlaceAndReason(text: String, offset: Int, reason: String) {
        let error = #expect(throws: ExpressionError.self) { try ConditionExpression(parsing: text, kind: .client) }
        #expect(error?.offset == offset)
        #expect(error?.reason.contains(reason) == true, "\(String(describing: error))")
        #expect(error?.description.hasSuffix(" at character \(offset + 1)") == true)
    }

    @Test func serverTemplatesTestOnlyPercentAndSignals() throws {
        let allowed = "true && percent('s') <= 5 && app.customSignal['a'] > 1 && version(app.customSignal['b']) < '2'"
        #expect(try parse(allowed, .server).count == 4)
        for (text, test) in Self.elements {
            let isAllowed =
                switch try #require(test) {
                case .constant, .percent, .value(.customSignal, _): true
                default: false
                }
            #expect(((try? parse(text, .server)) != nil) == isAllowed, "\(text)")
        }
        let error = #expect(throws: ExpressionError.self) { try parse("true && device.os == 'ios'", .server) }
        #expect(error?.reason.contains("'device.os' is not allowed in a server template") == true)
        #expect(error?.offset == 8)
    }

    @Test func fiftyElementsAreTheMost() throws {
        let fifty = Array(repeating: "true", count: 50).joined(separator: " && ")
        #expect(try parse(fifty).count == 50)
        let error = #expect(throws: ExpressionError.self) { try parse(fifty + " && true") }
        #expect(error?.offset == fifty.count + 4)
    }

    @Test func listsHaveTheirLimits() throws {
        let list = { (value: String, count: Int) in
            "[" + Array(repeating: "'\(value)'", count: count).joined(separator: ",") + "]"
        }
        let fid = "cAbCdEfGhIjKlMnOpQrS-_"
        for (text, value, limit) in [
            ("app.version.contains(@)", "1", 100), ("app.customSignal['a'].matches(@)", "x", 100),
            ("app.firebaseInstallationId in @", fid, 50), ("device.country in @", "US", 1000),
        ] {
            #expect(throws: Never.self) { try parse(text.replacing("@", with: list(value, limit))) }
            let error = #expect(throws: ExpressionError.self) {
                try parse(text.replacing("@", with: list(value, limit + 1)))
            }
            #expect(error?.reason == "a list has at most \(limit) values here")
        }
    }

    @Test func signalTextsHaveTheirLimits() throws {
        let text = { (count: Int) in String(repeating: "é", count: count) }
        #expect(throws: Never.self) { try parse("app.customSignal['\(text(250))'].contains(['\(text(500))'])") }
        #expect(throws: Never.self) { try parse("app.customSignal['a'].matches(['\(text(250))'])") }
        #expect(throws: ExpressionError.self) { try parse("app.customSignal['\(text(251))'].contains(['x'])") }
        #expect(throws: ExpressionError.self) { try parse("app.customSignal['a'].contains(['\(text(501))'])") }
        #expect(throws: ExpressionError.self) { try parse("app.customSignal['a'].matches(['\(text(251))'])") }
    }

    @Test func literalsHaveTheirValues() throws {
        #expect(try #require(NumericLiteral("-12.50")).value == -12.5)
        #expect(try #require(NumericLiteral("+5.")).value == 5)
        #expect(try #require(NumericLiteral(".5")).value == 0.5)
        for text in ["", "+", "-", ".", "1e5", "0x1", "1.2.3", "--1", "nan", "123456789012345678901", "1.12345678901"] {
            #expect(NumericLiteral(text) == nil, "\(text)")
        }
        #expect(VersionLiteral("1..2")?.segments == ["1", "", "2"])
        #expect(LocalMoment("2000-02-29T00:00:00", zone: nil) != nil)
        #expect(LocalMoment("1900-02-29T00:00:00", zone: nil) == nil)
        #expect(LocalMoment("2024-02-29T23:59:58", zone: nil)?.secondsAsUTC == 1_709_251_198)
        for text in ["2024-02-29t23:59:58", "2024-02-29T23:59:60", "2024-02-29T23:59:58.5", "2024-02-29T23:59Z+00"] {
            #expect(LocalMoment(text, zone: nil) == nil, "\(text)")
        }
    }
}
