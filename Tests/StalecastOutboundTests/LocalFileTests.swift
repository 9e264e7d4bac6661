import Foundation
import StalecastOutbound
import Testing

@Suite struct LocalFileTests {
    private static func withFolder(_ body: (String) throws -> Void) throws {
        let path = NSTemporaryDirectory() + "stalecast-local-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: path) }  // a leftover does no harm
        try body(path)
    }

    @Test func aFileIsReadAgainOnlyWhenItIsAnotherOne() throws {
        try Self.withFolder { folder in
            let path = "\(folder)/a"
            try Data("one".utf8).write(to: URL(fileURLWithPath: path))
            let first = try LocalFile.current(path, known: nil)
            #expect(first.bytes == Array("one".utf8))
            #expect(try LocalFile.current(path, known: first) == first)
            try Data("two".utf8).write(to: URL(fileURLWithPath: path), options: .atomic)
            let second = try LocalFile.current(path, known: first)
            #expect(second != first && second.bytes == Array("two".utf8))
        }
    }

    @Test func aFIFOHoldsNoReader() throws {
        try Self.withFolder { folder in
            #expect(mkfifo("\(folder)/pipe", 0o600) == 0)
            let error = #expect(throws: LocalFile.Unreadable.self) { try LocalFile(path: "\(folder)/pipe") }
            #expect(error?.description.hasSuffix("is no regular file") == true)
        }
    }

    @Test func whatIsTooLargeIsRefusedAndNotCut() throws {
        try Self.withFolder { folder in
            let path = "\(folder)/a"
            try Data(count: 5000).write(to: URL(fileURLWithPath: path))
            #expect(try LocalFile(path: path, maxBytes: 5000).bytes.count == 5000)
            let error = #expect(throws: LocalFile.Unreadable.self) { try LocalFile(path: path, maxBytes: 4999) }
            #expect(error?.description.contains("larger than 4999 bytes") == true)
        }
    }

    @Test func aMissingFileIsSaidToBeMissing() {
        let error = #expect(throws: LocalFile.Unreadable.self) { try LocalFile(path: "/nonexistent/a") }
        #expect(error?.isMissing == true && error?.description.hasPrefix("/nonexistent/a cannot be read: ") == true)
    }

    /// Nanoseconds since 1970 end in 2262.
    @Test(arguments: [Int.min, -9_300_000_000, 0, 10_413_792_000, Int.max])
    func anyTimeAndSizeIsAnIdentity(seconds: Int) {
        var status = stat()
        status.st_mtim = timespec(tv_sec: seconds, tv_nsec: 999_999_999)
        status.st_size = .max
        let identity = LocalFile.Identity(status)
        #expect(identity.modified - .seconds(seconds) == .nanoseconds(999_999_999))
        #expect(identity.bytes == .max)
        // No file system of a test needs to take such files.
        #expect([identity, identity].bytes == .max)
        status.st_size = .min
        #expect([identity, LocalFile.Identity(status)].bytes == .max)
    }
}
