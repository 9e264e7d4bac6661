import Foundation
import StalecastSources
import StalecastTemplate
import StalecastTestSupport
import Synchronization
import Testing

@Suite struct FileSourceTests {
    private let folder: Folder

    init() throws { folder = try Folder() }

    private func source(
        _ name: String, watch: FileWatch? = nil, maxBytes: Int = 1 << 20, quiet: Duration = .milliseconds(100)
    ) -> FileSource {
        FileSource(path: folder.file(name), kind: .client, watch: watch, maxBytes: maxBytes, quiet: quiet)
    }

    private static func json(_ value: String) -> String { OriginFixture.template(value) }

    @Test func aFileIsSeenOnce() async throws {
        try folder.write(Self.json("a"), to: "t.json")
        let source = source("t.json")
        #expect(await source.poll().greeting == "a")
        #expect(await source.poll() == .unchanged)
        source.forget()
        #expect(await source.poll().greeting == "a")
    }

    /// Nanoseconds since 1970 end in 2262, and a sum of sizes of sparse files beyond 64 bits.
    @Test(arguments: [10_413_792_000, -9_300_000_000])
    func aFileOfAnotherCenturyIsRead(seconds: Int) async throws {
        try folder.write(Self.json("a"), to: "t.json")
        let times = [timespec(tv_sec: seconds, tv_nsec: 1), timespec(tv_sec: seconds, tv_nsec: 1)]
        #expect(utimensat(AT_FDCWD, folder.file("t.json"), times, 0) == 0)
        let source = source("t.json")
        #expect(await source.poll().greeting == "a")
        #expect(await source.poll() == .unchanged)
    }

    @Test func sparseFilesAreTooLargeAndNoMore() async throws {
        for name in ["b.json", "c.json", "d.json"] {
            try folder.write(Self.json("a"), to: name)
            // A file system with a lower limit refuses; then the sum is small and the test says less.
            _ = truncate(folder.file(name), 1 << 62)
        }
        #expect(await source("").poll().problem != nil)
    }

    @Test func aDirectoryHasNoVersionOfItsOwn() async throws {
        try folder.write(Self.json("a"), to: "a.json")
        var reading = ContentReading()
        reading.version = try JSONPointer("/version")
        let source = FileSource(path: folder.path, reading: reading, kind: .client, watch: nil)
        #expect(await source.poll().problem?.description.contains("leave versionPointer") == true)
    }

    @Test func aDirectoryThatIsRenamedAwayIsWatchedNoMore() async throws {
        let watch = try #require(FileWatch())
        try folder.makeFolder("live")
        try folder.write(Self.json("0"), to: "live/t.json")
        let source = source("live", watch: watch, quiet: .milliseconds(1))
        let listening = Task { await source.listen { _ in } }
        try await eventually {
            _ = await source.poll()
            return watch.directories > 0
        }
        for turn in 1...10 {
            try folder.makeFolder("new")
            try folder.write(Self.json("\(turn)"), to: "new/t.json")
            rename(folder.file("live"), folder.file("old-\(turn)"))
            rename(folder.file("new"), folder.file("live"))
            while await source.poll().greeting != "\(turn)" {}
        }
        let here = "/proc/self/fdinfo/\(watch.descriptor)"
        let watches = try String(contentsOfFile: here, encoding: .utf8).split(separator: "\n")
            .count { $0.hasPrefix("inotify") }
        #expect(watches <= watch.directories, "the kernel watches \(watches)")
        listening.cancel()
    }

    @Test func everyWayToChangeItIsSeen() async throws {
        try folder.write(Self.json("a"), to: "t.json")
        let source = source("t.json")
        _ = await source.poll()
        try folder.write(Self.json("b"), to: "t.json")
        #expect(await source.poll().greeting == "b")
        try folder.write(Self.json("c"), to: "new")
        folder.replace("t.json", with: "new")
        #expect(await source.poll().greeting == "c")
        try folder.remove("t.json")
        try folder.write(Self.json("d"), to: "t.json")
        #expect(await source.poll().greeting == "d")
    }

    @Test func touchingIsNoChange() async throws {
        try folder.write(Self.json("a"), to: "t.json")
        let source = source("t.json")
        _ = await source.poll()
        try FileManager.default.setAttributes([.modificationDate: Date()], ofItemAtPath: folder.file("t.json"))
        #expect(await source.poll() == .unchanged)
    }

    @Test func sameSizeWithinOneTickIsSeen() async throws {
        let source = source("t.json")
        for value in ["a", "b", "c", "d", "e", "f"] {
            try folder.write(Self.json(value), to: "t.json")
            #expect(await source.poll().greeting == value)
        }
    }

    @Test func whatIsMissingIsSaidAndComesBack() async throws {
        let source = source("t.json")
        #expect(await source.poll().problem?.reason == .notFound)
        try folder.write(Self.json("a"), to: "t.json")
        #expect(await source.poll().greeting == "a")
        try folder.remove("t.json")
        #expect(await source.poll().problem?.reason == .notFound)
        try folder.write(Self.json("a"), to: "t.json")
        #expect(await source.poll() == .unchanged)
    }

    @Test func badContentIsReportedEveryTimeUntilItIsGood() async throws {
        try folder.write("{", to: "t.json")
        let source = source("t.json")
        for _ in 0..<2 { #expect(await source.poll().problem?.reason == .invalidContent) }
        try folder.write(Self.json("a"), to: "t.json")
        #expect(await source.poll().greeting == "a")
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
        let poll = await source("d").poll()
        guard case .seen(let sight) = poll else {
            Issue.record("\(poll)")
            return
        }
        #expect(sight.content.template.parameters.keys.sorted() == ["greeting", "other"])
        #expect(sight.content.template.conditions.count == 1)
    }

    @Test func whatTwoFilesOfAFolderHaveIsRefused() async throws {
        try folder.makeFolder("d")
        try folder.write(Self.json("a"), to: "d/1.json")
        try folder.write(Self.json("b"), to: "d/2.json")
        let problem = try #require(await source("d").poll().problem)
        #expect(problem.reason == .invalidContent)
        #expect(problem.description.contains("2.json: parameters.greeting is in 1.json already"))
    }

    @Test func anEmptyFolderAndOtherThingsAreNoTemplate() async throws {
        try folder.makeFolder("d")
        #expect(await source("d").poll().problem?.reason == .notFound)
        #expect(mkfifo(folder.file("pipe.json"), 0o600) == 0)
        #expect(await source("pipe.json").poll().problem?.reason == .unreadable)
    }

    @Test func tooMuchIsNotRead() async throws {
        try folder.write(Self.json(String(repeating: "x", count: 2000)), to: "t.json")
        let problem = try #require(await source("t.json", maxBytes: 1000).poll().problem)
        #expect(problem.reason == .tooLarge)
        #expect(problem.description.contains("maxBytes"))
    }

    /// Listens while `body` runs, and gives it a function that waits for the next call.
    private func listening(
        _ source: FileSource, _ body: (_ heard: @Sendable () -> Int) async throws -> Void
    ) async throws {
        let count = Mutex(0)
        let task = Task { await source.listen { _ in count.withLock { $0 += 1 } } }
        defer { task.cancel() }
        try await eventually { count.withLock { $0 } > 0 }
        _ = await source.poll()
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
                try await eventually { heard() > before }
                #expect(await source.poll().greeting == value)
            }
            let before = heard()
            try folder.write("unrelated", to: "other.txt")
            try folder.write(Self.json("d"), to: "new")
            folder.replace("t.json", with: "new")
            try await eventually { heard() > before }
            #expect(await source.poll().greeting == "d")
        }
    }

    /// Ends the look, which else would go on for ever, and the source would seem to be well.
    @Test func aFileThatChangesWhileItIsReadIsAProblemAfterAWhile() async throws {
        let watch = try #require(FileWatch())
        let path = folder.file("t.json")
        // Reading it takes longer than the time between two changes.
        try folder.write(Self.json(String(repeating: "a", count: 1_000_000)), to: "t.json")
        let source = FileSource(path: path, kind: .client, watch: watch, patience: .zero)
        try await listening(source) { _ in
            source.forget()
            let isOver = Atomic(false)
            Thread.detachNewThread {
                var second = 0
                while !isOver.load(ordering: .relaxed) {
                    second += 1
                    let times = [timespec(tv_sec: second, tv_nsec: 0), timespec(tv_sec: second, tv_nsec: 0)]
                    utimensat(AT_FDCWD, path, times, 0)
                    // Each change is an event. More of them than the watch can take would hold up every look.
                    usleep(50)
                }
            }
            var problem: OriginProblem?
            // The thread may not have begun when the first look ends.
            while problem == nil {
                problem = await source.poll().problem
                source.forget()
            }
            isOver.store(true, ordering: .relaxed)
            #expect(problem?.reason == .unreadable && problem?.description.contains("while it is read") == true)
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
            try await eventually { heard() > before }
            #expect(await source.poll().greeting == "b")
        }
    }

    private static func yaml(_ value: String) -> String {
        "parameters: {greeting: {defaultValue: {value: \(value)}}}\n"
    }

    /// Writes a part that is YAML, and the rest while the source looks.
    private func writeInTwoSteps(_ value: String, to name: String, _ source: FileSource) async throws {
        let file = try #require(FileHandle(forWritingAtPath: folder.file(name)))
        try file.truncate(atOffset: 0)
        try file.write(contentsOf: Data("parameters: {}\n".utf8))
        async let poll = source.poll()
        try await Task.sleep(for: .milliseconds(200))
        try file.seek(toOffset: 0)
        try file.write(contentsOf: Data(Self.yaml(value).utf8))
        try file.close()
        #expect(await poll.greeting == value)
    }

    @Test func whoIsStillWritingIsWaitedFor() async throws {
        let watch = try #require(FileWatch())
        try folder.write(Self.yaml("a"), to: "t.yaml")
        let source = source("t.yaml", watch: watch)
        try await listening(source) { heard in
            let before = heard()
            try await writeInTwoSteps("b", to: "t.yaml", source)
            try await eventually { heard() > before }
        }
    }

    @Test(arguments: ["t.yaml", "d"]) func aWriterIsWaitedForUnderEveryName(path: String) async throws {
        let watch = try #require(FileWatch())
        try folder.makeFolder("d")
        try folder.write(Self.yaml("a"), to: "d/blob")
        try folder.link("d/t.yaml", to: "blob")
        try folder.link("t.yaml", to: "d/t.yaml")
        let source = source(path, watch: watch)
        try await listening(source) { _ in try await writeInTwoSteps("b", to: "d/blob", source) }
    }

    @Test func aFolderUnderTwoNamesIsHeardUnderBoth() async throws {
        let watch = try #require(FileWatch())
        try folder.makeFolder("d")
        for name in ["d/1.yaml", "d/2.yaml"] { try folder.write(Self.yaml("a"), to: name) }
        let (one, two) = (source("d/1.yaml", watch: watch), source("d/../d/2.yaml", watch: watch))
        try await listening(one) { heardOne in
            try await listening(two) { heardTwo in
                let before = (heardOne(), heardTwo())
                try await writeInTwoSteps("b", to: "d/1.yaml", one)
                try await writeInTwoSteps("b", to: "d/2.yaml", two)
                try await eventually { heardOne() > before.0 && heardTwo() > before.1 }
            }
        }
    }

    @Test func aFolderThatLosesOneOfItsNamesIsStillHeard() async throws {
        let watch = try #require(FileWatch())
        try folder.makeFolder("d")
        try folder.write(Self.yaml("a"), to: "d/t.yaml")
        try folder.link("t.yaml", to: "d/t.yaml")
        try folder.link("other", to: "d/../d/t.yaml")
        let source = source("t.yaml", watch: watch)
        try await listening(source) { heard in
            folder.replace("t.yaml", with: "other")
            _ = await source.poll()
            // The link's own events came before this look or are told by then.
            try await Task.sleep(for: .milliseconds(100))
            let before = heard()
            try folder.write(Self.yaml("b"), to: "d/t.yaml")
            try await eventually { heard() > before }
            #expect(await source.poll().greeting == "b")
        }
    }

    // MARK: Folders that change in several steps

    private static func part(_ name: String, _ value: String) -> String {
        #"{"parameters":{"\#(name)":{"defaultValue":{"value":"\#(value)"}}}}"#
    }

    private static func names(_ poll: OriginPoll) -> [String] {
        guard case .seen(let sight) = poll else { return [] }
        return sight.content.template.parameters.keys.sorted()
    }

    private func makeParts() throws {
        try folder.makeFolder("d")
        for name in ["greeting", "other"] { try folder.write(Self.part(name, "a"), to: "d/\(name).json") }
    }

    /// The old file becomes a backup first, and the new one comes a while later.
    private func saveInSteps(_ source: FileSource) async throws {
        folder.replace("d/greeting.json~", with: "d/greeting.json")
        async let poll = source.poll()
        try await Task.sleep(for: .milliseconds(100))
        try folder.write(Self.part("greeting", "b"), to: "d/greeting.json")
        let seen = await poll
        #expect(Self.names(seen) == ["greeting", "other"])
        #expect(seen.greeting == "b")
    }

    @Test func aFolderIsReadWhenItIsQuiet() async throws {
        let watch = try #require(FileWatch())
        try makeParts()
        let source = source("d", watch: watch, quiet: .seconds(1))
        try await listening(source) { _ in try await saveInSteps(source) }
    }

    @Test func aFolderThatIsNotHeardIsReadWhenItIsQuiet() async throws {
        try makeParts()
        let source = source("d", quiet: .seconds(1))
        _ = await source.poll()
        try await saveInSteps(source)
    }

    @Test func aFileThatLeavesAFolderTakesItsParametersAway() async throws {
        try makeParts()
        let source = source("d")
        _ = await source.poll()
        try folder.remove("d/greeting.json")
        #expect(Self.names(await source.poll()) == ["other"])
    }

    @Test func aFolderThatIsNeverQuietIsReadAllTheSame() async throws {
        let watch = try #require(FileWatch())
        try makeParts()
        let source = source("d", watch: watch, quiet: .seconds(30))
        let listener = Task { await source.listen { _ in } }
        defer { listener.cancel() }
        try await Task.sleep(for: .milliseconds(100))
        let began = ContinuousClock.now
        #expect(await source.poll().greeting == "a")
        #expect(.now - began > .seconds(1))
    }
}
