import Foundation
import StalecastWire
import Synchronization

/// Makes the configuration from its sources, each winning over the one before: defaults, file, environment, flags.
package enum ConfigurationLoader {
    /// A file is at most this large; a larger one is no configuration.
    private static let maxFileBytes = 256 * 1024

    /// The name of standard input as `path`.
    package static let standardInput = "-"
    /// Content of standard input: it can be read once, and SIGHUP loads again.
    private static let piped = Mutex<[UInt8]?>(nil)

    /// Loads and checks everything, the files that hold tokens and secrets included, which are opened as at a start.
    /// `path` nil: no file. Throws all problems of all sources together; blocks on the files.
    package static func load(
        path: String?, environment: [String: String], overrides: ConfigurationOverrides = ConfigurationOverrides()
    ) throws(ConfigurationProblems) -> Configuration {
        let text = if let path { try text(of: path) } else { "" }
        let name = path == standardInput ? "standard input" : path ?? "defaults"
        return try load(text: text, file: name, environment: environment, overrides: overrides, opensFiles: true)
    }

    /// Loads the text of the file; `file` names it in problems.
    ///
    /// - Parameter opensFiles: false does not look at the files that values name.
    package static func load(
        text: String, file: String, environment: [String: String] = [:],
        overrides: ConfigurationOverrides = ConfigurationOverrides(), opensFiles: Bool = false
    ) throws(ConfigurationProblems) -> Configuration {
        let document = try ConfigurationDocument(text: text, file: file)
        var reading = ConfigurationReading(document: document, file: file)
        reading.read(environment)
        reading.read(overrides)
        reading.checkAcrossOptions()
        if opensFiles { reading.checkFiles() }
        if !reading.problems.isEmpty { throw ConfigurationProblems(reading.problems) }
        return reading.configuration
    }

    private static func text(of path: String) throws(ConfigurationProblems) -> String {
        let bytes = try bytes(of: path)
        if let text = String(validating: bytes, as: UTF8.self) { return text }
        let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        let index = lines.firstIndex { String(validating: $0, as: UTF8.self) == nil }
        throw problem(path, line: index.map { $0 + 1 }, "this is not UTF-8 text")
    }

    private static func bytes(of path: String) throws(ConfigurationProblems) -> [UInt8] {
        guard path != standardInput else {
            if let bytes = piped.withLock({ $0 }) { return bytes }
            guard let input = fdopen(STDIN_FILENO, "r") else { throw unreadable("standard input", errno) }
            let bytes = try read(input, "standard input")
            piped.withLock { $0 = bytes }
            return bytes
        }
        guard let file = fopen(path, "r") else { throw unreadable(path, errno) }
        defer { fclose(file) }
        return try read(file, path)
    }

    private static func read(_ file: UnsafeMutablePointer<FILE>, _ path: String) throws(ConfigurationProblems)
        -> [UInt8]
    {
        var bytes = [UInt8](repeating: 0, count: maxFileBytes + 1)
        let count = fread(&bytes, 1, bytes.count, file)
        if ferror(file) != 0 { throw unreadable(path, errno) }
        if count > maxFileBytes { throw problem(path, "is larger than \(ByteCount.spelled(maxFileBytes))") }
        return Array(bytes[..<count])
    }

    private static func unreadable(_ path: String, _ code: Int32) -> ConfigurationProblems {
        problem(path, "cannot be read: \(String(cString: strerror(code)))")
    }

    private static func problem(_ path: String, line: Int? = nil, _ sentence: String) -> ConfigurationProblems {
        ConfigurationProblems([ConfigurationProblem(origin: .file(path, line: line), sentence: sentence)])
    }
}
