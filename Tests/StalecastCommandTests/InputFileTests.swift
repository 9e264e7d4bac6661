import Foundation
import Testing
import stalecast

@Suite struct InputFileTests {
    @Test func aPipeIsReadToItsEnd() throws {
        let pipe = Pipe()
        try pipe.fileHandleForWriting.write(contentsOf: Data("whsec_x\n".utf8))
        try pipe.fileHandleForWriting.close()
        #expect(try SecretFile.read("/dev/fd/\(pipe.fileHandleForReading.fileDescriptor)") == "whsec_x")
    }

    @Test func noMoreIsReadThanASecretHas() throws {
        #expect(throws: CommandFailure.self) { try SecretFile.read("/dev/zero") }
        #expect(try InputFile.read("/dev/null").isEmpty)
    }

    @Test func whatCannotBeReadIsSaid() {
        for (path, words) in [("/nowhere/x", "no such file"), ("/", "Is a directory")] {
            let failure = #expect(throws: CommandFailure.self) { try InputFile.read(path) }
            #expect(failure?.sentence == "\(path) cannot be read (\(words))")
        }
    }
}
