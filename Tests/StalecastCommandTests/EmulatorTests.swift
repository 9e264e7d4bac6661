import Foundation
import StalecastTestSupport
import StalecastWire
import Testing
import stalecast

@Suite struct EmulatorTests {
    @Test func seededParametersHaveTheTypeOfTheirValue() throws {
        let seeds = ["n=3", "yes=true", "j={\"a\":[]}", "text=a=b", "empty=", "word=null"]
        let template = try EmulatorContents(path: nil, isWatched: false, seeds: seeds).read()
        let parameters = try #require(template?["parameters"]?.object)
        let types = parameters.members.map { "\($0.key) \($0.value["valueType"]?.string ?? "")" }
        #expect(types.sorted() == ["empty STRING", "j JSON", "n NUMBER", "text STRING", "word STRING", "yes BOOLEAN"])
        #expect(parameters["text"]?["defaultValue"]?["value"]?.string == "a=b")
    }

    @Test func aSeededParameterOfTheTemplateKeepsItsTypeAndItsConditions() throws {
        let temporary = try TemporaryDirectory()
        let path = "\(temporary.path)/template.json"
        let parameter = #"{"valueType":"STRING","defaultValue":{"value":"a"},"conditionalValues":{"c":{"value":"b"}}}"#
        try #"{"conditions":[{"name":"c","expression":"true"}],"parameters":{"p":\#(parameter)}}"#
            .write(toFile: path, atomically: true, encoding: .utf8)
        let contents = EmulatorContents(path: path, isWatched: true, seeds: ["p=3"])
        let seeded = try #require(try contents.read()?["parameters"]?["p"])
        #expect(seeded["valueType"]?.string == "STRING")
        #expect(seeded["defaultValue"]?["value"]?.string == "3")
        #expect(seeded["conditionalValues"]?["c"]?["value"]?.string == "b")
    }

    @Test func nothingIsPublishedWithoutATemplateAndValues() throws {
        #expect(try EmulatorContents(path: nil, isWatched: false, seeds: []).read() == nil)
    }

    @Test func aFileThatIsReplacedHasAnotherStamp() throws {
        let temporary = try TemporaryDirectory()
        let path = "\(temporary.path)/template.json"
        let contents = EmulatorContents(path: path, isWatched: true, seeds: [])
        #expect(contents.stamp == nil)
        try "{}".write(toFile: path, atomically: true, encoding: .utf8)
        let first = try #require(contents.stamp)
        #expect(contents.stamp == first)
        try "{ }".write(toFile: path, atomically: true, encoding: .utf8)
        let second = try #require(contents.stamp)
        #expect(second != first)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
        #expect(contents.stamp == second, "another mode is no other content")
        #expect(EmulatorContents(path: path, isWatched: false, seeds: []).stamp == nil)
    }

    @Test func theNextEmulatorRemovesWhatAKilledOneLeftAndNothingElse() throws {
        let temporary = try TemporaryDirectory()
        let killed = "\(temporary.path)/stalecast-emulator-killed"
        let foreign = "\(temporary.path)/stalecast"
        for path in [killed, foreign] {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        }
        try "x".write(toFile: killed + "/store.sqlite", atomically: false, encoding: .utf8)
        let running = try EmulatorData(in: temporary.path)
        let second = try EmulatorData(in: temporary.path)
        let names = { try FileManager.default.contentsOfDirectory(atPath: temporary.path).sorted() }
        let made = [running, second].map { URL(fileURLWithPath: $0.path).lastPathComponent }
        #expect(try names() == (["stalecast"] + made).sorted())
        second.remove()
        running.remove()
        #expect(try names() == ["stalecast"])
    }
}
