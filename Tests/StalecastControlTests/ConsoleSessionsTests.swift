import Foundation
import StalecastAccess
import StalecastControl
import StalecastTestSupport
import StalecastWire
import Synchronization
import Testing

@Suite("Console sessions")
struct ConsoleSessionsTests {
    /// Time that moves when it is told to.
    private final class Time: Sendable {
        private let now = Mutex(Timestamp(microseconds: 1_700_000_000_000_000))
        func read() -> Timestamp { now.withLock(\.self) }
        func pass(_ duration: Duration) { now.withLock { $0 = $0.advanced(by: duration) } }
    }

    private let time = Time()
    private let directory: TemporaryDirectory
    private let sessions: ConsoleSessions
    private let credentials: Credentials

    init() throws {
        directory = try TemporaryDirectory()
        let (time, counter) = (time, Counter())
        sessions = ConsoleSessions(clock: time.read, random: counter.next)
        var credentials = Credentials()
        credentials.authorization = "Bearer secret"
        self.credentials = credentials
    }

    private final class Counter: Sendable {
        private let count = Mutex<UInt64>(0)
        @Sendable func next() -> UInt64 {
            count.withLock { count in
                count += 1
                return count
            }
        }
    }

    private func opened(by holder: String = "key:one", in sessions: ConsoleSessions? = nil) throws -> String {
        try #require((sessions ?? self.sessions).open(credentials, user: "", of: holder))
    }

    @Test func aCodeOpensOnce() {
        let code = sessions.makeCode(for: credentials, user: "Ada")
        #expect(code.utf8.count == 64)
        let taken = sessions.take(code: code)
        #expect(taken?.credentials == credentials)
        #expect(taken?.user == "Ada")
        #expect(sessions.take(code: code) == nil)
    }

    @Test func aCodeIsGoodForAMinute() {
        let code = sessions.makeCode(for: credentials, user: "")
        time.pass(ConsoleSessions.codeLife)
        #expect(sessions.take(code: code) == nil)
    }

    @Test func lookingWhetherItGoesOnIsNoUse() throws {
        let cookie = try opened()
        for _ in 0..<3 {
            #expect(sessions.held(cookie) == credentials)
            time.pass(.seconds(1200))
        }
        #expect(sessions.held(cookie) == nil, "an hour without a request is over")
        let other = try opened()
        sessions.close(other)
        #expect(sessions.held(other) == nil)
    }

    @Test func aSessionThatIsUsedLivesUntilItsEnd() throws {
        let cookie = try opened()
        for _ in 0..<23 {
            time.pass(.seconds(1800))
            #expect(sessions.session(cookie) != nil)
        }
        time.pass(.seconds(1800))
        #expect(sessions.session(cookie) == nil, "twelve hours are over")
    }

    @Test func aSessionThatIsNotUsedEndsEarlier() throws {
        let cookie = try opened()
        time.pass(ConsoleSessions.idleLife)
        #expect(sessions.session(cookie) == nil)
        #expect(sessions.session(cookie) == nil)
    }

    @Test func signingOutEndsIt() throws {
        let cookie = try opened()
        sessions.close(cookie)
        #expect(sessions.session(cookie) == nil)
    }

    @Test func theLeastUsedMakesRoom() throws {
        let cookies = try (0..<ConsoleSessions.most).map { number in
            time.pass(.seconds(1))
            return try opened(by: "key:\(number)")
        }
        time.pass(.seconds(1))
        _ = sessions.session(cookies[0])
        let another = try opened(by: "key:another")
        #expect(sessions.session(cookies[1]) == nil)
        #expect(sessions.session(cookies[0]) != nil)
        #expect(sessions.session(another) != nil)
    }

    @Test func whoSignsInOftenMakesRoomWithTheirOwn() throws {
        let mine = try opened(by: "key:mine")
        let theirs = try (0...ConsoleSessions.mostOfOne).map { _ in
            time.pass(.seconds(3))
            return try opened(by: "key:theirs")
        }
        #expect(sessions.session(mine) != nil)
        #expect(sessions.session(theirs[0]) == nil)
        #expect(theirs.dropFirst().allSatisfy { sessions.session($0) != nil })
    }

    @Test func oneHolderSignsInAFewTimesAMinute() throws {
        for _ in 0..<ConsoleSessions.signInsPerMinute { _ = try opened(by: "key:one") }
        #expect(sessions.open(credentials, user: "", of: "key:one") == nil)
        #expect(sessions.open(credentials, user: "", of: "key:other") != nil)
        time.pass(.seconds(61))
        #expect(sessions.open(credentials, user: "", of: "key:one") != nil)
    }

    @Test func aSessionSurvivesARestart() throws {
        let file = directory.file("console-sessions.json")
        func process() -> ConsoleSessions {
            ConsoleSessions(file: SessionFile(directory: directory.path), clock: time.read)
        }
        var sessions = process()
        let cookies = try (0..<2).map { _ in
            try #require(sessions.open(credentials, user: "Ada", of: "key:one"))
        }
        let text = try String(contentsOfFile: file, encoding: .utf8)
        #expect(!text.contains("secret") && cookies.allSatisfy { !text.contains($0) }, "the file opens nothing")
        sessions.close(cookies[0])
        sessions = process()
        #expect(sessions.session(cookies[0]) == nil, "a sign-out is for good")
        #expect(sessions.session(cookies[1])?.credentials == credentials)
        #expect(sessions.session(cookies[1])?.user == "Ada")
        // Its use is written too, so that the hour without a request begins with the last one.
        time.pass(.seconds(1800))
        #expect(sessions.held(cookies[1]) == credentials)
        #expect(sessions.session(cookies[1]) != nil)
        // A sign-in returns when all before it is written.
        _ = sessions.open(credentials, user: "", of: "key:other")
        time.pass(.seconds(1900))
        #expect(process().session(cookies[1]) != nil)
        time.pass(.seconds(1800))
        #expect(process().session(cookies[1]) == nil)
    }

    @Test func aFileThatWasChangedOpensNothing() throws {
        let file = directory.file("console-sessions.json")
        let sessions = ConsoleSessions(file: SessionFile(directory: directory.path), clock: time.read)
        let cookie = try #require(sessions.open(credentials, user: "", of: "key:one"))
        let text = try String(contentsOfFile: file, encoding: .utf8)
        let forged = text.replacingOccurrences(of: "\"sealed\":\"", with: "\"sealed\":\"AAAA")
        for content in [forged, "{", "{\"\(String(repeating: "0", count: 64))\":{}}", "[]", ""] {
            try content.write(toFile: file, atomically: false, encoding: .utf8)
            let next = ConsoleSessions(file: SessionFile(directory: directory.path), clock: time.read)
            #expect(next.session(cookie) == nil && next.held(cookie) == nil)
        }
    }

    @Test func aFileThatCannotBeWrittenIsRemoved() throws {
        let file = directory.file("console-sessions.json")
        let reports = Mutex<[String]>([])
        let sessions = ConsoleSessions(
            file: SessionFile(directory: directory.path) { text in reports.withLock { $0.append(text) } },
            clock: time.read)
        let cookie = try opened(in: sessions)
        #expect(FileManager.default.fileExists(atPath: file))
        // Its draft cannot be made over a directory.
        try FileManager.default.createDirectory(atPath: "\(file).next", withIntermediateDirectories: false)
        sessions.close(cookie)
        #expect(!FileManager.default.fileExists(atPath: file), "else the next process has the session again")
        sessions.close(try opened(in: sessions))
        #expect(reports.withLock { $0.count } == 1 && reports.withLock { $0[0].hasPrefix("\(file): ") })
    }

    @Test func anotherCredentialEndsWithTheProcess() throws {
        var other = credentials
        other.apiKey = "another"
        var sessions = ConsoleSessions(file: SessionFile(directory: directory.path), clock: time.read)
        let cookie = try #require(sessions.open(other, user: "", of: "key:one"))
        #expect(sessions.session(cookie)?.credentials == other)
        sessions = ConsoleSessions(file: SessionFile(directory: directory.path), clock: time.read)
        #expect(sessions.session(cookie) == nil)
    }

    @Test func whoGuessesWaitsAMinute() {
        for _ in 0..<ConsoleSessions.wrongPerMinute {
            #expect(sessions.mayTry("10.0.0.1"))
            sessions.failed("10.0.0.1")
        }
        #expect(!sessions.mayTry("10.0.0.1"))
        #expect(sessions.mayTry("10.0.0.2"))
        time.pass(.seconds(61))
        #expect(sessions.mayTry("10.0.0.1"))
    }

    @Test func manyGuessersAreNotRemembered() {
        for address in 0..<1024 { sessions.failed("a\(address)") }
        #expect(!sessions.mayTry("another"), "the table is full, so a new address may not try")
        time.pass(.seconds(61))
        #expect(sessions.mayTry("another"))
    }
}
