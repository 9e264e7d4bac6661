import Foundation
import StalecastSources
import StalecastTemplate
import StalecastWire
import Synchronization
import Testing

/// A directory of its own for one test.
final class Folder: Sendable {
    let path = NSTemporaryDirectory() + "stalecast-files-\(UUID().uuidString)"

    init() throws { try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true) }
    deinit { try? FileManager.default.removeItem(atPath: path) }  // Nothing depends on it being gone.

    func file(_ name: String) -> String { "\(path)/\(name)" }

    func write(_ text: String, to name: String) throws {
        try text.write(toFile: file(name), atomically: false, encoding: .utf8)
    }

    func link(_ name: String, to destination: String) throws {
        try FileManager.default.createSymbolicLink(atPath: file(name), withDestinationPath: destination)
    }

    func makeFolder(_ name: String) throws {
        try FileManager.default.createDirectory(atPath: file(name), withIntermediateDirectories: true)
    }

    func remove(_ name: String) throws { try FileManager.default.removeItem(atPath: file(name)) }

    func replace(_ name: String, with other: String) { rename(file(other), file(name)) }
}

@Suite struct FileSourceTests {
    private let folder: Folder

    init() throws { folder = try Folder() }

    private func source(_ name: String, watch: FileWatch? = nil, maxBytes: Int = 1 << 20) -> FileSource {
        FileSource(path: folder.file(name), kind: .client, watch: watch, maxBytes: maxBytes)
    }

    private static func json(_ value: String) -> String { OriginFixture.template(value) }

    @Test func aFileIsSeenOnce() async throws {
        try folder.write(Self.json("a"), to: "t.json")
        let source = source("t.json")
        #expect(await source.look().greeting == "a")
        #expect(await source.look() == .unchanged)
        source.forget()
        #expect(await source.look().greeting == "a")
    }

    @Test func everyWayToChangeItIsSeen() async throws {
        try folder.write(Self.json("a"), to: "t.json")
        let source = source("t.json")
        _ = await source.look()
        try folder.write(Self.json("b"), to: "t.json")
        #expect(await source.look().greeting == "b")
        try folder.write(Self.json("c"), to: "new")
        folder.replace("t.json", with: "new")
        #expect(await source.look().greeting == "c")
        try folder.remove("t.json")
        try folder.write(Self.json("d"), to: "t.json")
        #expect(await source.look().greeting == "d")
    }

    @Test func touchingIsNoChange() async throws {
        try folder.write(Self.json("a"), to: "t.json")
        let source = source("t.json")
        _ = await source.look()
        try FileManager.default.setAttributes([.modificationDate: Date()], ofItemAtPath: folder.file("t.json"))
        #expect(await source.look() == .unchanged)
    }

    @Test func sameSizeWithinOneTickIsSeen() async throws {
        let source = source("t.json")
        for value in ["a", "b", "c", "d", "e", "f"] {
            try folder.write(Self.json(value), to: "t.json")
            #expect(await source.look().greeting == value)
        }
    }

    @Test func whatIsMissingIsSaidAndComesBack() async throws {
        let source = source("t.json")
        #expect(await source.look().problem?.reason == .notFound)
        try folder.write(Self.json("a"), to: "t.json")
        #expect(await source.look().greeting == "a")
        try folder.remove("t.json")
        #expect(await source.look().problem?.reason == .notFound)
        try folder.write(Self.json("a"), to: "t.json")
        #expect(await source.look() == .unchanged)
    }

    @Test func badContentIsReportedEveryTimeUntilItIsGood() async throws {
        try folder.write("{", to: "t.json")
        let source = source("t.json")
        for _ in 0..<2 { #expect(await source.look().problem?.reason == .invalidContent) }
        try folder.write(Self.json("a"), to: "t.json")
        #expect(await source.look().greeting == "a")
    }

    @Test func aFolderOfFilesIsOneTemplate() async throws {
        try folder.makeFolder("d")
        try folder.write(
            #"{"conditions":[{"name":"c","expression":"true"}],"parameters":{"greeting":{"defaultValue":{"value":"a"}}}}"#,
            to: "d/1.json")
        try folder.write(
            "parameters: {other: {defaultValue: {value: b}, conditionalValues: {c: {value: x}}}}", to: "d/2.yaml")
        try folder.write("no template", to: "d/README")
        try folder.write("{", to: "d/.hidden.json")
        let look = await source("d").look()
        guard case .seen(let sight) = look else {
            Issue.record("\(look)")
            return
        }
        #expect(sight.content.template.parameters.keys.sorted() == ["greeting", "other"])
        #expect(sight.content.template.conditions.count == 1)
    }

    @Test func whatTwoFilesOfAFolderHaveIsRefused() async throws {
        try folder.makeFolder("d")
        try folder.write(Self.json("a"), to: "d/1.json")
        try folder.write(Self.json("b"), to: "d/2.json")
        let problem = try #require(await source("d").look().problem)
        #expect(problem.reason == .invalidContent)
        #expect(problem.description.contains("2.json: parameters.greeting is in 1.json already"))
    }

    @Test func anEmptyFolderAndOtherThingsAreNoTemplate() async throws {
        try folder.makeFolder("d")
        #expect(await source("d").look().problem?.reason == .notFound)
        #expect(mkfifo(folder.file("pipe.json"), 0o600) == 0)
        #expect(await source("pipe.json").look().problem?.reason == .unreadable)
    }

    @Test func tooMuchIsNotRead() async throws {
        try folder.write(Self.json(String(repeating: "x", count: 2000)), to: "t.json")
        let problem = try #require(await source("t.json", maxBytes: 1000).look().problem)
        #expect(problem.reason == .tooLarge)
        #expect(problem.description.contains("maxBytes"))
    }

    /// Listens while `body` runs, and gives it a function that waits for the next call.
    private func listening(
        _ source: FileSource, _ body: (_ heard: @Sendable () -> Int) async throws -> Void
    ) async rethrows {
        let count = Mutex(0)
        let task = Task { await source.listen { _ in count.withLock { $0 += 1 } } }
        defer { task.cancel() }
        #expect(await eventually { count.withLock { $0 } > 0 })
        _ = await source.look()
        try await body { count.withLock { $0 } }
    }

    @Test func savesAreHeard() async throws {
        let watch = try #require(FileWatch())
        try folder.write(Self.json("a"), to: "t.json")
        let source = source("t.json", watch: watch)
        try await listening(source) { heard in
            for value in ["b", "c"] {
                let before = heard()
                try folder.write(Self.json(value), to: "t.json")
                #expect(await eventually { heard() > before })
                #expect(await source.look().greeting == value)
            }
            let before = heard()
            try folder.write("unrelated", to: "other.txt")
            try folder.write(Self.json("d"), to: "new")
            folder.replace("t.json", with: "new")
            #expect(await eventually { heard() > before })
            #expect(await source.look().greeting == "d")
        }
    }

    @Test func aSwapOfLinkedFoldersIsHeard() async throws {
        let watch = try #require(FileWatch())
        for (name, value) in [("..1", "a"), ("..2", "b")] {
            try folder.makeFolder(name)
            try folder.write(Self.json(value), to: "\(name)/t.json")
        }
        try folder.link("..data", to: "..1")
        try folder.link("t.json", to: "..data/t.json")
        let source = source("t.json", watch: watch)
        try await listening(source) { heard in
            let before = heard()
            try folder.link("..data_tmp", to: "..2")
            folder.replace("..data", with: "..data_tmp")
            #expect(await eventually { heard() > before })
            #expect(await source.look().greeting == "b")
        }
    }

    @Test func whoIsStillWritingIsWaitedFor() async throws {
        let watch = try #require(FileWatch())
        try folder.write("parameters: {greeting: {defaultValue: {value: a}}}\n", to: "t.yaml")
        let source = source("t.yaml", watch: watch)
        try await listening(source) { heard in
            let before = heard()
            let file = try #require(FileHandle(forWritingAtPath: folder.file("t.yaml")))
            try file.truncate(atOffset: 0)
            try file.write(contentsOf: Data("parameters: {}\n".utf8))
            async let look = source.look()
            try await Task.sleep(for: .milliseconds(200))
            try file.seek(toOffset: 0)
            try file.write(contentsOf: Data("parameters: {greeting: {defaultValue: {value: b}}}\n".utf8))
            try file.close()
            #expect(await look.greeting == "b")
            #expect(await eventually { heard() > before })
        }
    }
}
