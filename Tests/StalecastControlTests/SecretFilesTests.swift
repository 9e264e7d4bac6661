import Dispatch
import StalecastControl
import Testing

@Suite(.timeLimit(.minutes(5))) struct SecretFilesTests {
    private struct Missing: Error {}

    @Test func whatTheFileSaysIsSaid() async throws {
        let files = SecretFiles(patience: .seconds(10)) { path in
            guard path == "there" else { throw Missing() }
            return "secret"
        }
        #expect(try await files.read("there") == "secret")
        await #expect(throws: Missing.self) { try await files.read("elsewhere") }
        #expect(try await files.read("there") == "secret")
    }

    @Test func aFileThatHangsHoldsUpNoOther() async throws {
        let gate = DispatchSemaphore(value: 0)
        let files = SecretFiles(patience: .milliseconds(50)) { path in
            if path == "hangs" {
                gate.wait()
                gate.signal()
            }
            return path
        }
        for _ in 0..<2 {
            await #expect(throws: SecretFiles.Hanging.self) { try await files.read("hangs") }
        }
        #expect(try await files.read("good") == "good")
        gate.signal()
        var read: String?
        while read == nil { read = try? await files.read("hangs") }
        #expect(read == "hangs")
    }
}
