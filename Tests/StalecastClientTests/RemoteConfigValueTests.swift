import Foundation
import StalecastClient
import Testing

@Suite struct RemoteConfigValueTests {
    private func value(_ text: String) -> RemoteConfigValue { RemoteConfigValue(text, source: .remote) }

    @Test(arguments: [
        ("true", true), ("True", true), ("t", true), ("yes", true), ("Y", true), ("1", true), ("0001", true),
        ("-1", true), (" +5", true), ("9x", true), ("false", false), ("0", false), ("", false), ("off", false),
        ("no", false), ("-0", false), ("on", false), ("x1", false),
    ])
    func booleansAreReadAsNSStringDoes(text: String, isTrue: Bool) {
        #expect(value(text).boolValue == isTrue)
        #expect(NSString(string: text).boolValue == isTrue, "Foundation's own")
    }

    @Test(
        arguments: [
            ("10", 10), ("-1.5", -1.5), ("1e3", 1000), ("10abc", 10), (" 7", 7), ("", 0), ("abc", 0), (".5", 0.5),
            ("5.", 5), ("1.2.3", 1.2), ("--1", 0), ("nan", 0), ("inf", 0),
        ] as [(String, Double)])
    func numbersAreTheirTextsBeginning(text: String, number: Double) {
        #expect(value(text).numberValue.doubleValue == number)
    }

    @Test func wholeNumbersOf64BitsAreExact() {
        #expect(value("9007199254740993").numberValue.int64Value == 9_007_199_254_740_993)
        #expect(value("-9223372036854775808").numberValue.int64Value == .min)
        #expect(value("42").numberValue == 42)
    }

    @Test func dataAndJSONAreTheTexts() {
        #expect(value("héllo").dataValue == Data("héllo".utf8))
        #expect((value(#"{"a":[1,2]}"#).jsonValue as? [String: [Int]]) == ["a": [1, 2]])
        #expect(value("no json").jsonValue == nil)
        #expect(value("").jsonValue == nil)
    }

    private struct Theme: Codable, Equatable {
        var color: String
        var size: Int?
    }

    @Test func valuesDecodeAsTypes() throws {
        #expect(try value("12").decoded(asType: Int.self) == 12)
        #expect(try value(" 12 ").decoded(asType: UInt8.self) == 12)
        #expect(try value("1.5").decoded(asType: Double.self) == 1.5)
        #expect(try value("true").decoded(asType: Bool.self))
        #expect(try value("plain").decoded(asType: String.self) == "plain")
        #expect(try value("https://example.com/a").decoded(asType: URL.self).host == "example.com")
        #expect(try value("1800000000").decoded(asType: Date.self).timeIntervalSince1970 == 1_800_000_000)
        #expect(try value("2027-01-15T08:00:00Z").decoded(asType: Date.self).timeIntervalSince1970 == 1_800_000_000)
        #expect(try value(#"{"color":"red"}"#).decoded(asType: Theme.self) == Theme(color: "red"))
        #expect(try value("[1,2]").decoded(asType: [Int].self) == [1, 2])
        #expect(try value(#"{"a":1}"#).decoded(asType: [String: Int].self) == ["a": 1])
    }

    @Test func whatDoesNotDecodeSaysSo() {
        #expect(throws: DecodingError.self) { try value("twelve").decoded(asType: Int.self) }
        #expect(throws: DecodingError.self) { try value("300").decoded(asType: UInt8.self) }
        #expect(throws: DecodingError.self) { try value("{").decoded(asType: Theme.self) }
        #expect(throws: DecodingError.self) { try value(#"{"size":1}"#).decoded(asType: Theme.self) }
        #expect(throws: DecodingError.self) { try value("soon").decoded(asType: Date.self) }
    }
}

@Suite struct DefaultsTests {
    private let config = StalecastApp.test(LocalConfigServer()).config

    private struct Settings: Codable, Equatable {
        struct Theme: Codable, Equatable { var color: String }
        var title: String
        var limit: Int
        var ratio: Double
        var isNew: Bool
        var theme: Theme
        var tags: [String]
        var note: String?
    }

    private let settings = Settings(
        title: "Hi", limit: 20, ratio: 0.5, isNew: true, theme: .init(color: "red"), tags: ["a", "b"])

    @Test func dictionariesOfPlainValuesAreDefaults() throws {
        config.setDefaults([
            "text": "t", "int": 3, "double": 1.5, "bool": true, "no": NSNumber(value: false), "data": Data("d".utf8),
            "list": [1, 2], "object": ["k": "v"], "null": NSNull(), "number": NSNumber(value: 7),
        ])
        #expect(config["text"].stringValue == "t")
        #expect(config["text"].source == .default)
        #expect(config["int"].numberValue == 3)
        #expect(config["double"].numberValue == 1.5)
        #expect(config["bool"].boolValue && config["bool"].stringValue == "1")
        #expect(config["no"].stringValue == "0")
        #expect(config["number"].stringValue == "7")
        #expect(config["data"].stringValue == "d")
        #expect(config["list"].stringValue == "[1,2]")
        #expect(config[jsonValue: "object"] == ["k": "v"])
        #expect(config["null"].source == .static)
        #expect(config["absent"].source == .static && config["absent"].stringValue.isEmpty)
        #expect(config.defaultValue(forKey: "int")?.numberValue == 3)
        #expect(config.defaultValue(forKey: "absent") == nil)
        config.setDefaults(nil)
        #expect(config.allKeys(from: .default).isEmpty)
    }

    @Test func aCodableValueGoesInAndComesOut() throws {
        try config.setDefaults(from: settings)
        #expect(try config.decoded(asType: Settings.self) == settings)
        #expect(config["limit"].numberValue == 20)
        #expect(config["theme"].stringValue == #"{"color":"red"}"#)
        #expect(config[decodedValue: "tags"] as [String]? == ["a", "b"])
        #expect(config[decodedValue: "absent"] as Int? == nil)
        #expect(Set(config.allKeys(from: .default)) == ["title", "limit", "ratio", "isNew", "theme", "tags"])
    }

    @Test func aValueThatIsNoObjectIsRefused() {
        #expect(throws: RemoteConfigCodableError.self) { try config.setDefaults(from: [1, 2]) }
        #expect(throws: RemoteConfigCodableError.self) { try config.setDefaults(from: "text") }
    }

    @Test func aMissingParameterIsNamed() {
        config.setDefaults(["title": "x"])
        let error = #expect(throws: DecodingError.self) { try config.decoded(asType: Settings.self) }
        guard case .keyNotFound(let key, _)? = error else { return #expect(Bool(false), "\(error as Any)") }
        #expect(key.stringValue == "limit")
    }

    @Test func defaultsComeFromAPropertyList() throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID()).plist")
        defer { try? FileManager.default.removeItem(at: file) }
        let values: [String: Any] = ["welcome_text": "Hello", "max_items": 20, "dark_mode": true]
        try PropertyListSerialization.data(fromPropertyList: values, format: .xml, options: 0).write(to: file)
        config.setDefaults(fromPlist: file.path)
        #expect(config["welcome_text"].stringValue == "Hello")
        #expect(config["max_items"].numberValue == 20)
        #expect(config["dark_mode"].stringValue == "1")
        config.setDefaults(fromPlist: String(file.path.dropLast(6)))
        #expect(config.allKeys(from: .default).count == 3)
        config.setDefaults(fromPlist: "NoSuchList")
        #expect(config.allKeys(from: .default).count == 3, "a missing list changes nothing")
    }

    @Test func remoteValuesGoBeforeDefaults() async throws {
        let server = LocalConfigServer(values: ["a": "remote", "ab": "", "b": "1"])
        let config = StalecastApp.test(server).config
        config.setDefaults(["a": "default", "d": "default"])
        #expect(config["a"].stringValue == "default")
        try await config.fetch()
        #expect(config["a"].stringValue == "default", "fetched is not active")
        try await config.activate()
        #expect(config["a"].stringValue == "remote")
        #expect(config["ab"].source == .remote && config["ab"].stringValue.isEmpty, "an empty value is a value")
        #expect(config["d"].stringValue == "default")
        #expect(config.configValue(forKey: "a", source: .default).stringValue == "default")
        #expect(config.configValue(forKey: "b", source: .default).source == .static)
        #expect(config.keys(withPrefix: "a") == ["a", "ab"])
        #expect(config.keys(withPrefix: nil) == ["a", "ab", "b"])
    }
}
