import Glibc
import StalecastEdge
import StalecastHTTP
import StalecastTemplate
import StalecastTestSupport
import StalecastWire
import Synchronization
import Testing

/// The body of a fetch read in place says what the lenient reader says of it, or nothing.
@Suite struct FetchScanTests {
    private static let now = Timestamp(microseconds: 0)

    /// nil for what is not ordinary, or is refused.
    private func scanned(_ bytes: [UInt8]) -> EvaluationContext? {
        bytes.withUnsafeBufferPointer { bytes in
            FetchScan(bytes).flatMap { try? FetchRequest.context($0, at: Self.now) }
        }
    }

    private func isOrdinary(_ bytes: [UInt8]) -> Bool { bytes.withUnsafeBufferPointer { FetchScan($0) != nil } }

    private func lenient(_ bytes: [UInt8]) -> EvaluationContext? {
        try? FetchRequest.context(RequestBody.object(bytes, cap: 65_536), at: Self.now)
    }

    private static func body(_ members: String) -> String {
        #"{"appId":"1:2:web:3","appInstanceId":"i","appInstanceIdToken":"t""# + members + "}"
    }

    @Test(arguments: FetchBodies.all)
    func whatSDKsSendIsOrdinary(body: String) {
        let context = scanned(Array(body.utf8))
        #expect(context != nil && context == lenient(Array(body.utf8)))
    }

    @Test(arguments: [
        #","timeZone":"Europe\/Paris","countryCode":"\"\\\b\f\n\r\t""#, #","country_code":null,"languageCode":"""#,
        #","countryCode":"(null)","appBuild":12,"appVersion":-1.5e3"#, #","other":true , "third" : [] "#,
        #","customSignals":{"a":1,"b":true,"c":null,"d":"","e":"(null)","a":"2"}"#, #","customSignals":null"#,
        #","customSignals":{"a":null,"a":"1"},"analyticsUserProperties":{"p":"q"}"#, #","customSignals":{}"#,
        #",countryCode:'it's "here"', language_code : '', app_build:'(null)' ,custom_signals:{city:'york'}"#,
    ])
    func bothReadersAgree(members: String) {
        let bytes = Array(Self.body(members).utf8)
        if isOrdinary(bytes) { #expect(scanned(bytes) == lenient(bytes)) }
    }

    @Test(arguments: [
        #","appId":"x""#, #","app_id":"x""#, #","countryCode":"\u0041""#, #","countryCode":"é""#,
        #","customSignals":[]"#,
        #","customSignals":{"a":{}}"#, #","customSignals":"x""#, #","countryCode":1x"#, ",", #","a":(null)"#,
        #","countryCode":'a\\b'"#, ",'countryCode':'GB'", ",country-code:'GB'", ",countryCode:'GB",
    ])
    func doubtIsLeftToTheLenientReader(members: String) {
        #expect(!isOrdinary(Array(Self.body(members).utf8)))
    }

    /// Seeded damage to good bodies; a failing seed can be run again alone.
    @Test(arguments: 0..<40)
    func damagedBodiesAreReadAsTheLenientReaderReadsThem(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let bodies =
            FetchBodies.all + [
                Self.body(#","customSignals":{"city":"york","n":12,"b":false,"x":null},"time_zone":"a\/b","x":[1]"#)
            ]
        let damage = Array("\"\\{}[]:,'x0-.tn/ u\t\u{7F}\u{0}é".utf8)
        var ordinary = 0
        for _ in 0..<300 {
            var bytes = Array(bodies.randomElement(using: &random)!.utf8)
            for _ in 0..<Int.random(in: 0..<3, using: &random) {
                let index = Int.random(in: 0..<bytes.count, using: &random)
                switch Int.random(in: 0..<3, using: &random) {
                case 0: bytes[index] = damage.randomElement(using: &random)!
                case 1: bytes.insert(damage.randomElement(using: &random)!, at: index)
                default: bytes.remove(at: index)
                }
            }
            guard isOrdinary(bytes) else { continue }
            ordinary += 1
            #expect(scanned(bytes) == lenient(bytes), "\(String(decoding: bytes, as: UTF8.self).debugDescription)")
        }
        #expect(ordinary > 0, "the damage must leave some bodies whole")
    }

    // MARK: Keys

    private func key(_ members: String, _ inputs: [ConditionInput]?) -> KnownOutcomes.Key? {
        Array(Self.body(members).utf8).withUnsafeBufferPointer { bytes in
            FetchScan(bytes).flatMap { KnownOutcomes(inputs).key(of: $0) }
        }
    }

    @Test func fetchesThatSayTheSameOfTheInputsHaveOneKey() throws {
        let inputs: [ConditionInput] = [.country, .attribute(.customSignal("city"))]
        let york = try #require(key(#","customSignals":{"city":"york"}"#, inputs))
        #expect(york == key(#","timeZone":"x","customSignals":{"tier":"1","city":"york"},"countryCode":"""#, inputs))
        #expect(york == key(#","customSignals":{"city":null,"city":"york"}"#, inputs))
        for other in [
            #","customSignals":{"city":"hull"}"#, #","customSignals":{"city":null}"#, #","customSignals":{"city":""}"#,
            #","countryCode":"GB","customSignals":{"city":"york"}"#, #","countryCode":"york""#,
        ] { #expect(york != key(other, inputs), "\(other)") }
    }

    @Test func noKeyIsMadeWhereFetchesShareNoOutcome() {
        #expect(key("", nil) == nil, "the id or the time decides")
        #expect(key("", [.attribute(.customSignal("caf\u{E9}"))]) == nil, "names beyond ASCII are compared as texts")
        let long = String(repeating: "x", count: 600)
        #expect(
            key(#","customSignals":{"city":"\#(long)"}"#, [.attribute(.customSignal("city"))]) == nil, "a key is short")
    }

    private static let expressions = [
        "app.id == '1:2:web:3'", "device.os == 'web'", "device.country in ['GB', 'US']", "device.language in ['en']",
        "app.version.>=(['2.1'])", "app.build.exactlyMatches(['12'])", "app.userProperty['plan'].contains(['r'])",
        "app.firstOpenTimestamp > ('2026-01-01T00:00:00')", "app.customSignal['city'].exactlyMatches(['york', 'a/b'])",
        "app.customSignal['n'] >= 2", "app.customSignal['n'].matches(['^1'])",
        "app.customSignal['on'].exactlyMatches(['true'])",
    ]

    /// A body that says little at random, in any of the spellings.
    private static func randomBody(using random: inout SeededRandom) -> String {
        let values = [
            #""GB""#, #""gb""#, #""en""#, #""en-US""#, #""2.1""#, "2.1", #""12""#, "12", "1.2e1", #""1""#, "1", "true",
            #""true""#, "false", "null", #""""#, #""(null)""#, #""york""#, #""a\/b""#, #""a/b""#, #""pro""#,
            #""2026-01-05T10:00:00Z""#, #""2025-01-05T10:00:00.000Z""#, "'york'", "'GB'",
        ]
        func pick(_ names: [String], quoted: Bool = true) -> String {
            let name = names.randomElement(using: &random)!
            return (quoted ? "\"\(name)\"" : name) + ":" + values.randomElement(using: &random)!
        }
        func map(_ names: [String]) -> String {
            "{" + (0..<Int.random(in: 0..<4, using: &random)).map { _ in pick(names) }.joined(separator: ",") + "}"
        }
        let fields = [
            ["countryCode", "country_code"], ["languageCode", "language_code"], ["appVersion", "app_version"],
            ["appBuild", "app_build"], ["firstOpenTime", "first_open_time"], ["timeZone"], ["other"],
        ]
        var members = fields.filter { _ in Bool.random(using: &random) }.map {
            pick($0, quoted: Bool.random(using: &random))
        }
        members.append("customSignals:" + map(["city", "n", "on", "other"]))
        members.append("\"analyticsUserProperties\":" + map(["plan", "city"]))
        members.shuffle(using: &random)
        let id = Int.random(in: 0..<1_000_000, using: &random)
        let app = ["1:2:web:3", "1:2:ios:3", "1:2:android:3", "x"].randomElement(using: &random)!
        return
            #"{"appId":"\#(app)","appInstanceId":"i\#(id)","appInstanceIdToken":"t",\#(members.joined(separator: ","))}"#
    }

    /// Seeded conditions and bodies: those that make one key have one outcome, for each client and at any time.
    @Test(arguments: 0..<20)
    func bodiesWithOneKeyHaveOneOutcome(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let used = Self.expressions.shuffled(using: &random).prefix(Int.random(in: 1...3, using: &random))
        let names = used.indices.map { "c\($0)" }
        let template = CompiledTemplate(
            Template(
                conditions: zip(names, used).map { TemplateCondition(name: $0, expression: $1) },
                parameters: Dictionary(
                    uniqueKeysWithValues: names.map { name in
                        (name, TemplateParameter(conditionalValues: [name: .value("v")]))
                    })))
        #expect(template.inputs != nil, "\(used)")
        let known = KnownOutcomes(template.inputs)
        var outcomes: [KnownOutcomes.Key: ConditionOutcome] = [:]
        var repeated = 0
        for time in 0..<2000 {
            let text = Self.randomBody(using: &random)
            try Array(text.utf8).withUnsafeBufferPointer { bytes in
                guard let scan = FetchScan(bytes), let key = known.key(of: scan) else { return }
                let now = Timestamp(microseconds: Int64(time) * 1_000_000_000_000)
                let outcome = template.outcome(for: try FetchRequest.context(scan, at: now))
                guard let before = outcomes.updateValue(outcome, forKey: key) else { return }
                repeated += 1
                #expect(outcome == before, "\(used): \(text)")
            }
        }
        #expect(repeated > 100 && outcomes.count > 1, "\(repeated) of \(outcomes.count) keys")
    }

    // MARK: Known outcomes

    private static func keys(_ cities: some Sequence<Int>) -> [KnownOutcomes.Key] {
        cities.map { city in
            Array(body(#","customSignals":{"city":"\#(city)"}"#).utf8).withUnsafeBufferPointer { bytes in
                KnownOutcomes([.attribute(.customSignal("city"))]).key(of: FetchScan(bytes)!)!
            }
        }
    }

    private final class Evaluations: Sendable {
        private let count = Mutex(0)
        private let outcome = CompiledTemplate(.empty).outcomeOfNone

        var sum: Int { count.withLock { $0 } }
        func add() -> ConditionOutcome {
            count.withLock { $0 += 1 }
            // Another thread comes with the same key meanwhile.
            sched_yield()
            return outcome
        }
    }

    @Test func fetchesThatSayTheSameAtTheSameTimeAreEvaluatedOnce() async {
        let (known, evaluations) = (KnownOutcomes([.attribute(.customSignal("city"))]), Evaluations())
        let keys = Self.keys(0..<KnownOutcomes.maxKeys)
        await withTaskGroup { group in
            for _ in 0..<8 {
                group.addTask { for key in keys { _ = known.outcome(of: key) { evaluations.add() } } }
            }
        }
        #expect(evaluations.sum == keys.count)
    }

    @Test func keysOfOneClientDoNotDriveOutThoseOfMany() {
        let (known, evaluations) = (KnownOutcomes([.attribute(.customSignal("city"))]), Evaluations())
        let shared = Self.keys(0..<8)
        for key in Self.keys(8..<8 + 4 * KnownOutcomes.maxKeys) {
            _ = known.outcome(of: key) { evaluations.add() }
            for key in shared { _ = known.outcome(of: key) { evaluations.add() } }
        }
        #expect(evaluations.sum == 8 + 4 * KnownOutcomes.maxKeys)
    }
}
