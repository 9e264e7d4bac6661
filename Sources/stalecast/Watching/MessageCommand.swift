import Foundation
import StalecastWire

/// A shell command that is run for each message, which it finds on its standard input.
package struct MessageCommand: Sendable {
    private let text: String

    package init(_ text: String) { self.text = text }

    /// Variables with a message's members, for a command that reads no JSON; a member that it does not have is empty.
    package static func variables(of data: String) -> [String: String] {
        let message = JSONValue.ifValid(data.utf8)  // of text that is no JSON the input alone tells
        func text(_ name: String) -> String {
            // The environment's texts end at a zero byte.
            (message?[name]?.string ?? "").replacing("\0", with: "")
        }
        let keys = (message?["changedKeys"]?.array ?? []).compactMap(\.string)
        return [
            "STALE_TOPIC": text("topic"), "STALE_PROJECT": text("project"), "STALE_NAMESPACE": text("namespace"),
            "STALE_VERSION": text("latestTemplateVersionNumber"), "STALE_UPDATE_TYPE": text("updateType"),
            "STALE_CHANGED_KEYS": keys.joined(separator: ",").replacing("\0", with: ""),
        ]
    }

    /// Runs it to its end, with this process's output as its own.
    ///
    /// - Returns: the exit code; as in a shell 128 and the signal's number for a command that a signal ended.
    /// - Throws: ``CommandFailure`` when there is no shell.
    func run(_ data: String) async throws(CommandFailure) -> Int32 {
        let process = Process()
        process.executableURL = URL(filePath: "/bin/sh")
        process.arguments = ["-c", text]
        process.environment = ProcessInfo.processInfo.environment.merging(Self.variables(of: data)) { _, new in new }
        // Written before it runs: a command that reads none of it breaks nothing. A message fits into the pipe.
        let input = Pipe()
        process.standardInput = input.fileHandleForReading
        // The command has one of its own by then; this one would stay open as long as the process.
        defer { try? input.fileHandleForReading.close() }
        do {
            try input.fileHandleForWriting.write(contentsOf: Data(data.utf8.prefix(Self.maxInputBytes)) + [0x0A])
            try input.fileHandleForWriting.close()
            return try await withCheckedThrowingContinuation { done in
                process.terminationHandler = { process in
                    let isKilled = process.terminationReason == .uncaughtSignal
                    done.resume(returning: process.terminationStatus + (isKilled ? 128 : 0))
                }
                do { try process.run() } catch {
                    process.terminationHandler = nil
                    done.resume(throwing: error)
                }
            }
        } catch {
            throw CommandFailure(.refused, "the command cannot be run (\(error.reason))")
        }
    }

    /// Linux's pipes hold 64 KiB; the server's messages have at most 4 KB.
    private static let maxInputBytes = 32 << 10
}
