import StalecastTemplate
import StalecastWire
import Testing

/// Whether `expression` is true for `context`, by way of a template with one parameter.
func isTrue(_ expression: String, _ context: EvaluationContext, kind: TemplateKind = .client) -> Bool {
    let template = Template(
        conditions: [TemplateCondition(name: "c", expression: expression)],
        parameters: ["p": TemplateParameter(conditionalValues: ["c": .value("yes")])])
    let compiled = CompiledTemplate(template, kind: kind)
    let isDelivered = !compiled.values(for: compiled.outcome(for: context)).entries.isEmpty
    let explained = compiled.explain(context).conditions.first
    #expect(explained?.isMatched == isDelivered, "\(expression)")
    #expect(explained?.reason.isEmpty == false, "\(expression)")
    return isDelivered
}

@Suite struct EvaluationConditionTests {
    static let context: EvaluationContext = {
        var context = EvaluationContext(
            appID: "1:123456789012:ios:0a1b2c", appInstanceID: "cAbCdEfGhIjKlMnOpQrStU", countryCode: "us",
            languageCode: "en_US", timeZone: "Europe/Paris", appVersion: "2.1.0", appBuild: "210",
            firstOpenTime: Timestamp("2026-01-05T10:00:00Z"),
            analyticsUserProperties: ["plan": "pro", "level": "10", "word": "e\u{301}"],
            customSignals: ["city": "york", "sdk": "1.2.3", "long": "1.2.3.4.5.6", "empty": "", "blank": " york "],
            now: Timestamp("2026-03-01T08:30:00Z") ?? .now())
        context.audiences = ["Buyers", "vip"]
        context.web.browserAndVersion = "Chrome-120"
        return context
    }()

    @Test(arguments: [
        ("true", true), ("false", false), ("app.id == '1:123456789012:ios:0a1b2c'", true), ("app.id != 'x'", true),
        ("app.id in ['x', '1:123456789012:ios:0a1b2c']", true), ("device.os == 'ios'", true),
        ("device.os != 'ios'", false), ("device.os in ['android', 'web']", false),
        ("app.version.<(['2.1'])", false), ("app.version.<=(['2.1'])", true), ("app.version.==(['2.1'])", true),
        ("app.version.!=(['2.1'])", false), ("app.version.>=(['2.1.0.0'])", true), ("app.version.>(['2.0.99'])", true),
        ("app.version.<(['2.10'])", true), ("app.version.>(['99999999999999999999'])", false),
        ("app.version.contains(['x', '1.'])", true), ("app.version.notContains(['x', '3'])", true),
        ("app.version.notContains(['x', '1'])", false), ("app.version.exactlyMatches(['2.1'])", false),
        ("app.version.matches(['^2\\.[0-9]'])", true), ("app.build.==(['0210'])", true),
        ("app.build.>(['211'])", false), ("app.userProperty['plan'].exactlyMatches(['free', 'pro'])", true),
        ("app.userProperty['plan'].exactlyMatches(['Pro'])", false),
        ("app.userProperty['plan'].contains(['r'])", true), ("app.userProperty['plan'].notContains(['r'])", false),
        ("app.userProperty['level'] >= 10", true), ("app.userProperty['level'] == 10.0", true),
        ("app.userProperty['level'] > 10", false), ("app.userProperty['level'] != 9.5", true),
        ("app.userProperty['level'] < -1", false), ("app.userProperty['level'] <= +10.", true),
        ("app.userProperty['plan'] != 1", false), ("app.userProperty['word'].exactlyMatches(['\u{E9}'])", false),
        ("app.userProperty['word'].contains(['e'])", true), ("app.customSignal['city'].matches(['y.r', 'x'])", true),
        ("app.customSignal['empty'].exactlyMatches([''])", true), ("app.customSignal['empty'] == 0", false),
        ("app.customSignal['empty'].notContains(['x'])", true),
        ("app.customSignal['blank'].exactlyMatches(['york'])", false),
        ("version(app.customSignal['sdk']) >= '1.2'", true), ("version(app.customSignal['sdk']) == '1.2'", false),
        ("version(app.customSignal['long']) > '1'", false), ("version(app.customSignal['city']) != '1'", false),
        ("app.audiences.inAtLeastOne(['x', 'vip'])", true), ("app.audiences.inAll(['x', 'vip'])", false),
        ("app.audiences.inAll(['Buyers', 'vip'])", true), ("app.audiences.notInAtLeastOne(['x', 'vip'])", true),
        ("app.audiences.notInAtLeastOne(['vip'])", false), ("app.audiences.notInAll(['x', 'y'])", true),
        ("app.audiences.notInAll(['x', 'vip'])", false), ("app.importedSegments.notInAll(['x'])", false),
        ("device.country in ['CA', 'US']", true), ("device.country in ['CA']", false),
        ("device.language in ['en']", true), ("device.language in ['EN-us']", true),
        ("device.language in ['en-GB', 'e']", false),
        ("app.firebaseInstallationId in ['cAbCdEfGhIjKlMnOpQrStU']", true),
        ("app.firebaseInstallationId in ['dAbCdEfGhIjKlMnOpQrStU']", false),
        ("app.firstOpenTimestamp >= ('2026-01-05T10:00:00')", true),
        ("app.firstOpenTimestamp > ('2026-01-05T10:00:00')", false),
        ("app.firstOpenTimestamp > ('2026-01-05T10:00:00', 'Europe/Paris')", true),
        ("app.firstOpenTimestamp > ('2026-01-05T10:00:00', 'Nowhere/Land')", false),
        ("dateTime >= dateTime('2026-03-01T09:30:00')", true), ("dateTime > dateTime('2026-03-01T09:30:00')", false),
        ("dateTime < dateTime('2026-03-01T09:30:00', 'UTC')", true),
        ("dateTime > dateTime('2025-12-31T00:00:00')", true), ("dateTime < dateTime('2026-12-31T00:00:00')", true),
        ("app.browserAndVersion.inOne(['Chrome-120'])", true), ("app.browserAndVersion.notInOne(['x'])", true),
        ("app.operatingSystemAndVersion.notInOne(['x'])", false), ("percent <= 100", true), ("percent > 100", false),
        ("device.os == 'ios' && device.country in ['DE']", false),
        ("device.os == 'ios' && device.country in ['US']", true),
    ])
    func elementDecides(expression: String, expected: Bool) {
        #expect(isTrue(expression, Self.context) == expected, "\(expression)")
    }

    @Test func nothingKnownMakesEveryTestFalse() {
        for (text, _) in ConditionExpressionTests.elements {
            let isConstant = text == "true"
            let needsOnlyTime = text.contains("'Europe/Paris'") && text.hasPrefix("datetime")
            if isConstant || needsOnlyTime { continue }
            #expect(!isTrue(text, EvaluationContext()), "\(text)")
        }
    }

    @Test func aServerTemplateTrimsExactTexts() {
        let expression = "app.customSignal['blank'].exactlyMatches(['york '])"
        #expect(isTrue(expression, Self.context, kind: .server))
        #expect(!isTrue(expression, Self.context))
    }

    @Test(arguments: [
        ("en", "en-US", true), ("en-US", "en", false), ("zh-Hans", "zh_Hans_CN", true), ("zh-Hans", "zh", false),
        ("es-419", "es-419-x", false), ("e", "en", false), ("en", "eng", false),
    ])
    func languageWithoutRegionTakesItsRegions(literal: String, actual: String, expected: Bool) {
        #expect(isTrue("device.language in ['\(literal)']", EvaluationContext(languageCode: actual)) == expected)
    }

    /// Europe/Paris leaves 02:00 to 03:00 out on 29 March 2026 and has it twice on 25 October.
    @Test(arguments: [
        ("2026-03-29T02:30:00", "2026-03-29T01:30:00Z"), ("2026-03-29T03:30:00", "2026-03-29T01:30:00Z"),
        ("2026-10-25T02:30:00", "2026-10-25T00:30:00Z"), ("2026-10-25T03:00:00", "2026-10-25T02:00:00Z"),
    ])
    func changesOfClocksAreKnown(local: String, instant: String) throws {
        let moment = try #require(Timestamp(instant))
        for (zone, deviceZone) in [(", 'Europe/Paris'", nil), ("", "Europe/Paris")] as [(String, String?)] {
            let expression = "dateTime >= dateTime('\(local)'\(zone))"
            let before = Timestamp(microseconds: moment.microseconds - 1)
            #expect(isTrue(expression, EvaluationContext(timeZone: deviceZone, now: moment)))
            #expect(!isTrue(expression, EvaluationContext(timeZone: deviceZone, now: before)))
        }
    }

    static let buckets: [(String, String, UInt32)] = [
        ("1", "one", 64_146_488), ("2", "two", 76_516_209), ("3", "three", 6_701_947), ("4", "four", 85_000_289),
        ("5", "five", 2_514_745), ("", "😊", 9_911_325), ("", "😀", 62_040_281), ("hêl£o", "wørlÐ", 67_411_682),
        ("řemøťe", "çōnfįġ", 19_728_496), ("long", String(repeating: ".", count: 100), 39_278_120),
        ("very-long", String(repeating: ".", count: 1000), 71_699_042), ("", "123", 42_395_619),
        ("seed", "123", 91_483_029), ("rollout_seed", "user-42", 81_757_869),
    ]

    /// Seeds with letters beyond ASCII cannot be written in an expression, a rollout's id can have them.
    @Test(arguments: buckets)
    func bucketIsThatOfTheAdminSDKs(seed: String, id: String, bucket: UInt32) throws {
        let context = EvaluationContext(appInstanceID: id)
        for (micros, expected) in [(bucket, false), (bucket + 1, true)] {
            let percent = "\(micros / 1_000_000).\(String(micros % 1_000_000 + 1_000_000).dropFirst())"
            let value: JSONValue = ["rolloutId": .string(seed), "value": "in", "percent": .number(percent)]
            let template = Template(parameters: ["p": TemplateParameter(defaultValue: .rollout(value))])
            let compiled = CompiledTemplate(template)
            #expect(compiled.values(for: compiled.outcome(for: context)).entries.isEmpty != expected)
            guard seed.utf8.allSatisfy({ $0 < 0x80 }) else { continue }
            #expect(isTrue("percent('\(seed)') > \(percent)", context) == false)
            #expect(isTrue("percent('\(seed)') <= \(percent)", context))
        }
        guard seed.utf8.allSatisfy({ $0 < 0x80 }) else { return }
        #expect(isTrue("percent('\(seed)') between 0 and 50", context) == (bucket <= 50_000_000))
        let exact = "\(bucket / 1_000_000).\(String(bucket % 1_000_000 + 1_000_000).dropFirst())"
        #expect(!isTrue("percent('\(seed)') between \(exact) and 100", context))
    }
}
