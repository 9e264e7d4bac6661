import Foundation

/// Makes the configuration from its sources, each winning over the one before: defaults, file, environment, flags.
package enum ConfigurationLoader {
    /// A file is at most this large; a larger one is no configuration.
    private static let maxFileBytes = 256 * 1024

    /// Loads and checks everything. `path` nil: no file. Throws all problems of all sources together; blocks on the file.
    package static func load(
        path: String?, environment: [String: String], overrides: ConfigurationOverrides = ConfigurationOverrides()
    ) throws(ConfigurationProblems) -> Configuration {
        let text = if let path { try text(of: path) } else { "" }
        return try load(text: text, file: path ?? "defaults", environment: environment, overrides: overrides)
    }

    /// The same with the text of the file; `file` names it in problems.
    package static func load(
        text: String, file: String, environment: [String: String] = [:],
        overrides: ConfigurationOverrides = ConfigurationOverrides()
    ) throws(ConfigurationProblems) -> Configuration {
        let document = try ConfigurationDocument(text: text, file: file)
        var reading = ConfigurationReading(document: document, file: file)
        reading.read(environment)
        reading.read(overrides)
        reading.checkAcrossOptions()
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
        guard let file = fopen(path, "r") else { throw unreadable(path, errno) }
        defer { fclose(file) }
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
