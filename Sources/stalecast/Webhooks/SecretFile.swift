import Foundation

/// A webhook's secret in a file of its own, readable by its owner only.
package enum SecretFile {
    /// A larger file is no secret.
    private static let maxBytes = 4096

    /// The text of the file without blanks around it; `-` is standard input.
    package static func read(_ path: String) throws(CommandFailure) -> String {
        let data = try InputFile.read(path, maxBytes: maxBytes)
        guard data.count <= maxBytes else { throw CommandFailure(.refused, "\(path) is too large for a secret") }
        return String(decoding: data, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// Makes the empty file before the secret exists, so that no secret is lost to a path that cannot be written.
    /// - Throws: ``CommandFailure`` when it exists already or cannot be made.
    static func claim(_ path: String) throws(CommandFailure) {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw CommandFailure(.refused, "\(path) cannot be made: \(String(cString: strerror(errno)))")
        }
        close(descriptor)
    }

    /// Fills a file of ``claim(_:)``.
    static func fill(_ path: String, _ secret: String) throws(CommandFailure) {
        do { try OutputFile.write(Array((secret + "\n").utf8), to: path) } catch {
            // The daemon does not show it again.
            throw CommandFailure(.refused, "\(error.sentence); the secret is \(secret)")
        }
    }

    /// Result of `make`, which makes a secret for the file `path`: the file is there before the secret is, and goes
    /// when none comes.
    static func claiming<Made>(
        _ path: String?, _ make: () async throws(CommandFailure) -> Made
    ) async throws(CommandFailure) -> Made {
        if let path { try claim(path) }
        do { return try await make() } catch {
            if let path { unlink(path) }
            throw error
        }
    }
}
