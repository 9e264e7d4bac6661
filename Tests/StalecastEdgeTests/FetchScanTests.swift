import StalecastEdge
import StalecastHTTP
import StalecastTemplate
import StalecastTestSupport
import StalecastWire
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
        let inputs: [ConditionInput] = [.country, .customSignal("city")]
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
        #expect(key("", [.customSignal("caf\u{E9}")]) == nil, "names beyond ASCII are compared as texts")
        let long = String(repeating: "x", count: 600)
        #expect(key(#","customSignals":{"city":"\#(long)"}"#, [.customSignal("city")]) == nil, "a key is short")
    }
}
