import Foundation
import StalecastDaemon
import Testing

@Suite struct TokenFileTests {
    private let directory: String

    init() throws {
        directory = FileManager.default.temporaryDirectory.path + "/stalecast-token-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    }

    private var plain: String { "\(directory)/control.token" }

    private func load(_ file: String? = nil) throws(StartError) -> TokenFile {
        try TokenFile.load(directory: directory, file: file)
    }

    @Test func theTokenIsMadeOnceAndStays() throws {
        let first = try load()
        #expect(first.warnings.isEmpty)
        let again = try load()
        #expect(again.digest == first.digest && again.warnings.isEmpty)
    }

    @Test func aLostTokenIsSaidWithTheWayOut() throws {
        let first = try load()
        try FileManager.default.removeItem(atPath: plain)
        let again = try load()
        #expect(again.digest == first.digest, "an operator may have moved it away")
        #expect(again.warnings.count == 1 && again.warnings[0].contains("stalecast token rotate"))
    }

    @Test func aTokenThatTheDaemonDoesNotTakeIsSaid() throws {
        _ = try load()
        try "another-token-of-somebody".write(toFile: plain, atomically: true, encoding: .utf8)
        #expect(try load().warnings.count == 1)
    }

    @Test func rotationReplacesBothFiles() throws {
        let first = try load()
        try TokenFile.rotate(directory: directory)
        let second = try load()
        #expect(second.digest != first.digest && second.warnings.isEmpty)
    }

    @Test func aShortTokenIsRefusedAndAReadableOneIsSaid() throws {
        let file = "\(directory)/given"
        try "short".write(toFile: file, atomically: true, encoding: .utf8)
        #expect(throws: StartError.self) { try load(file) }
        try "long-enough-to-be-a-token\n".write(toFile: file, atomically: true, encoding: .utf8)
        chmod(file, 0o644)
        #expect(try load(file).warnings.count == 1)
        chmod(file, 0o640)
        #expect(try load(file).warnings.isEmpty)
    }
}
