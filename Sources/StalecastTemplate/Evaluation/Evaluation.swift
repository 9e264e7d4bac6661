import Foundation
import StalecastWire

/// One evaluation of a template's tests for one context. Every test, attribute and percent bucket is worked out at
/// most once, and only when asked for.
struct Evaluation {
    let compiler: CompiledTemplate.TestCompiler
    let context: EvaluationContext
    /// Budget of the work; when it is used up, tests that need more are false.
    private(set) var budget: EvaluationBudget
    private var results: [Result]
    private var readings: [AttributeReading?]
    private var buckets: [UInt32?]
    private var matcher = Pattern.Matcher()
    private let country: [UInt8]?
    private let language: [UInt8]?
    private var exactTexts: [ConditionExpression.TextElement: ExactText?] = [:]
    private lazy var localNow: LocalNow? = context.timeZone.flatMap { LocalNow(context.now, zone: $0) }
    private lazy var audiences = Self.names(context.audiences)
    private lazy var importedSegments = Self.names(context.importedSegments)

    private enum Result: UInt8 {
        case unknown
        case isFalse
        case isTrue
    }

    /// Longest text, in characters, that regular expressions are tried on; a longer one matches none.
    static let maxMatchedLength = 1000

    init(
        _ compiler: CompiledTemplate.TestCompiler, context: EvaluationContext,
        budget: EvaluationBudget = EvaluationBudget()
    ) {
        (self.compiler, self.context, self.budget) = (compiler, context, budget)
        results = Array(repeating: .unknown, count: compiler.tests.count)
        readings = Array(repeating: nil, count: compiler.attributes.all.count)
        buckets = Array(repeating: nil, count: compiler.seeds.all.count)
        // Only two letters can be in a list: a longer text would be hashed once for each test.
        country = context.countryCode.flatMap { $0.utf8.count == 2 ? LanguageRange.normalized($0) : nil }
        language = context.languageCode.map(LanguageRange.normalized)
    }

    /// Whether the test at `place` is true.
    mutating func holds(_ place: Int) -> Bool {
        if results[place] != .unknown { return results[place] == .isTrue }
        let isTrue = decides(compiler.tests[place])
        results[place] = isTrue ? .isTrue : .isFalse
        return isTrue
    }

    /// The instance's bucket for the seed at `place`; nil without an installation id.
    mutating func bucket(_ place: Int) -> UInt32? {
        guard let id = context.appInstanceID else { return nil }
        if let bucket = buckets[place] { return bucket }
        let seed = compiler.seeds.all[place]
        // SHA-256 costs about 50 steps for the call, and one for four bytes of input.
        let bucket = budget.affords(50 + (id.utf8.count + seed.utf8.count) / 4) ? RandomBucket.of(id, seed: seed) : nil
        buckets[place] = bucket
        return bucket
    }

    /// Reading of the context's attribute at `place`.
    mutating func reading(_ place: Int) -> AttributeReading {
        if let reading = readings[place] { return reading }
        let reading = AttributeReading(text(of: compiler.attributes.all[place]))
        readings[place] = reading
        return reading
    }

    private func text(of attribute: ConditionExpression.Attribute) -> String? {
        switch attribute {
        case .appVersion: context.appVersion
        case .appBuild: context.appBuild
        case .userProperty(let name): context.analyticsUserProperties[name]
        case .customSignal(let name): context.customSignals[name]
        }
    }

    private static func names(_ list: [String]?) -> Set<ExactText>? {
        list.map { Set($0.map { ExactText($0) }) }
    }
}

extension Evaluation {
    private mutating func decides(_ test: CompiledTemplate.Test) -> Bool {
        switch test {
        case .constant(let isTrue): return isTrue
        case .impossible: return false
        case .text(let element, let texts, let isNegated):
            return exactText(of: element).map { texts.contains($0) != isNegated } ?? false
        case .country(let codes): return country.map(codes.contains) ?? false
        case .language(let ranges): return language.map { tag in ranges.contains { $0.takes(tag) } } ?? false
        case .attributeText(let place, let test): return decides(test, reading(place))
        case .attributeNumber(let place, let comparison, let number):
            return reading(place).number.map { comparison.holds($0, number) } ?? false
        case .attributeVersion(let place, let comparison, let version, let maxSegments):
            // A version with more segments than Firebase allows in a signal makes the test false.
            guard let found = reading(place).version, found.segmentCount <= maxSegments else { return false }
            return comparison.holds(found, version)
        case .set(let element, let setOperator, let names): return decides(setOperator, element, names)
        case .firstOpen(let comparison, let moment):
            return context.firstOpenTime.map { comparison.holds($0, moment) } ?? false
        case .now(let comparison, let moment): return comparison.holds(context.now, moment)
        case .localNow(let comparison, let moment): return decides(comparison, moment)
        case .percent(let seed, let range): return bucket(seed).map(range.contains) ?? false
        }
    }

    /// Text of the context for `element`, made once however many tests ask for it.
    private mutating func exactText(of element: ConditionExpression.TextElement) -> ExactText? {
        if let known = exactTexts[element] { return known }
        let text = text(of: element).map { ExactText($0) }
        exactTexts[element] = .some(text)
        return text
    }

    /// The context's text for `element`.
    func text(of element: ConditionExpression.TextElement) -> String? {
        switch element {
        case .appID: context.appID
        case .operatingSystem: context.platform
        case .country: context.countryCode
        case .language: context.languageCode
        case .installation: context.appInstanceID
        case .operatingSystemAndVersion: context.web.operatingSystemAndVersion
        case .browserAndVersion: context.web.browserAndVersion
        }
    }

    private mutating func decides(_ test: CompiledTemplate.AttributeTest, _ reading: AttributeReading) -> Bool {
        guard let text = reading.text else { return false }
        switch test {
        case .contains(let sought, let isNegated):
            // A search takes about half a step for each byte of the text.
            guard budget.affords(sought.count * (1 + text.bytes.count / 2)) else { return false }
            return sought.contains { $0.isFound(in: text) } != isNegated
        case .isOne(let texts, let trimming): return texts.contains(trimming ? reading.trimmed ?? text : text)
        case .matches(let patterns):
            guard let scalars = reading.scalars else { return false }
            // nil: the budget ran out. The test is false then, like every test after it that needs steps.
            for pattern in patterns where matcher.finds(pattern, in: scalars, budget: &budget) == true { return true }
            return false
        }
    }

    private mutating func decides(
        _ setOperator: ConditionExpression.SetOperator, _ element: ConditionExpression.SetElement,
        _ names: [ExactText]
    ) -> Bool {
        guard let found = element == .audiences ? audiences : importedSegments else { return false }
        return switch setOperator {
        case .inAtLeastOne: names.contains(where: found.contains)
        // "Not in at least one" is true as soon as one is missing; "not in all" wants all of them missing.
        case .notInAtLeastOne: !names.allSatisfy(found.contains)
        case .inAll: names.allSatisfy(found.contains)
        case .notInAll: !names.contains(where: found.contains)
        }
    }

    private mutating func decides(_ comparison: ConditionExpression.Comparison, _ moment: LocalMoment) -> Bool {
        guard let localNow else { return false }
        return localNow.decides(comparison, moment, budget: &budget)
    }
}

/// One attribute of a context in all forms it is compared in.
struct AttributeReading {
    /// nil when the context does not say.
    let text: ExactText?
    /// Text without blanks around it.
    let trimmed: ExactText?
    /// nil when the text is no number.
    let number: Double?
    /// nil when the text is no version.
    let version: VersionNumbers?
    /// Scalars for regular expressions; nil when the text is longer than ``Evaluation/maxMatchedLength``.
    let scalars: [UInt32]?

    init(_ text: String?) {
        self.text = text.map { ExactText($0) }
        trimmed = self.text?.trimmed
        number = trimmed.flatMap { Self.number($0.bytes) }
        version = text.flatMap { VersionNumbers($0) }
        let isShort = text.map { $0.unicodeScalars.prefix(Evaluation.maxMatchedLength + 1).count } ?? 0
        scalars = isShort <= Evaluation.maxMatchedLength ? text.map { $0.unicodeScalars.map(\.value) } : nil
    }

    /// Decimal, with or without exponent; no `inf`, `nan` or hexadecimal, no more than 64 characters.
    private static func number(_ bytes: [UInt8]) -> Double? {
        guard bytes.count <= 64, bytes.allSatisfy({ (0x30...0x39).contains($0) || "+-.eE".utf8.contains($0) }),
            let number = Double(Substring(decoding: bytes, as: UTF8.self)), number.isFinite
        else { return nil }
        return number
    }
}

/// The time of the fetch in the device's zone.
struct LocalNow {
    private let now: Timestamp
    private let zone: TimeZone
    /// Seconds of the local time, read as if it were UTC.
    private let localSeconds: Int64

    /// nil when there is no such zone.
    init?(_ now: Timestamp, zone name: String) {
        guard let zone = ZoneTable.zone(name) else { return nil }
        self.now = now
        self.zone = zone
        let seconds = Double(now.microseconds) / 1_000_000
        let offset = zone.secondsFromGMT(for: Date(timeIntervalSince1970: seconds))
        // Rounded down, because truncation before 1970 would give the next second.
        localSeconds = Int64(seconds.rounded(.down)) + Int64(offset)
    }

    /// Further than two days apart no change of clocks matters, and the zone need not be asked (which is slow).
    func decides(_ comparison: ConditionExpression.Comparison, _ moment: LocalMoment, budget: inout EvaluationBudget)
        -> Bool
    {
        let distance = localSeconds - moment.secondsAsUTC
        if abs(distance) > 2 * 86_400 { return comparison.holds(distance, 0) }
        // Asking Foundation for offsets costs as much as 200 steps.
        return budget.affords(200) && comparison.holds(now, moment.instant(in: zone))
    }
}

extension ConditionExpression.PercentTest.Range {
    /// Whether it takes in a bucket.
    func contains(_ bucket: UInt32) -> Bool {
        switch self {
        case .atMost(let bound): bucket <= bound
        case .above(let bound): bucket > bound
        case .between(let lower, let upper): lower < bucket && bucket <= upper
        }
    }
}
