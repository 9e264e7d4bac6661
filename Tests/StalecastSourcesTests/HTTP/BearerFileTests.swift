import Foundation
import StalecastOutbound
import StalecastSources
import Testing

@Suite struct BearerFileTests {
    private static func withFile(_ body: (String) throws -> Void) throws {
        let path = FileManager.default.temporaryDirectory.appending(path: "stalecast-bearer-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: path) }  // a leftover does no harm
        try body(path)
    }

    @Test func isReadAgainWhenItChanges() throws {
        try Self.withFile { path in
            try "  first\n".write(toFile: path, atomically: true, encoding: .utf8)
            let file = BearerFile(path: path)
            #expect(try file.token() == "first")
            #expect(try file.token() == "first")
            try "second".write(toFile: path, atomically: true, encoding: .utf8)
            #expect(try file.token() == "second")
            try "third!".write(toFile: path, atomically: true, encoding: .utf8)
            #expect(try file.token() == "third!")
        }
    }

    @Test func aMissingFileIsAnErrorOnlyWhileItIsMissing() throws {
        try Self.withFile { path in
            let file = BearerFile(path: path)
            let error = #expect(throws: LocalFile.Unreadable.self) { try file.token() }
            #expect(error?.description.contains(path) == true)
            try "token".write(toFile: path, atomically: true, encoding: .utf8)
            #expect(try file.token() == "token")
            try FileManager.default.removeItem(atPath: path)
            #expect(throws: LocalFile.Unreadable.self) { try file.token() }
        }
    }

    @Test(arguments: ["", " \n", "two words", "tok\r\nX-Evil: 1", "tökén", String(repeating: "x", count: 20_000)])
    func whatIsNoTokenIsRefusedWithoutRepeatingIt(text: String) throws {
        try Self.withFile { path in
            try text.write(toFile: path, atomically: true, encoding: .utf8)
            let error = #expect(throws: LocalFile.Unreadable.self) { try BearerFile(path: path).token() }
            #expect(error?.description.contains("words") == false)
        }
    }
}
