import Foundation
import StalecastTemplate
package import StalecastWire

/// The template that the emulator publishes: a file, values from the command line, or both.
package struct EmulatorContents: Sendable {
    /// nil without a file.
    package let path: String?
    private let isWatched: Bool
    private let seeds: [String]

    /// - Parameter seeds: each `KEY=VALUE`.
    package init(path: String?, isWatched: Bool, seeds: [String]) {
        (self.path, self.isWatched, self.seeds) = (path, isWatched, seeds)
    }

    /// Stamp of the file at the time of the call; nil when no file is watched and while there is none.
    package var stamp: FileStamp? { isWatched ? path.flatMap { FileStamp($0) } : nil }

    /// The template to publish; nil when there is nothing.
    ///
    /// - Throws: ``CommandFailure`` with every problem found.
    package func read() throws(CommandFailure) -> JSONValue? {
        let file = try path.map { path throws(CommandFailure) in try TemplateFile(path) }
        // Checked before the daemon starts: then its problems have line numbers.
        _ = try file?.template(for: .firebase)
        let document = file?.request(description: nil)
        guard !seeds.isEmpty else { return document }
        var edit = TemplateEdit(document ?? .object([:]))
        for seed in seeds { try Self.set(seed, in: &edit) }
        var seeded = edit.document
        seeded["version"] = document?["version"]
        _ = try TemplateFile(.object(seeded), named: "the template with --seed-values").template(for: .firebase)
        return .object(seeded)
    }

    private static func set(_ seed: String, in edit: inout TemplateEdit) throws(CommandFailure) {
        let parts = seed.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        let value = parts.count > 1 ? parts[1] : ""
        try edit.set(parts[0], to: value, if: nil, making: type(of: value).rawValue)
    }

    private static func type(of value: String) -> ValueType {
        // Text is what is not JSON.
        switch JSONValue.ifValid(Array(value.utf8)) {
        case .bool?: .boolean
        case .number?: .number
        case .array?, .object?: .json
        case .string?, .null?, nil: .string
        }
    }
}

/// Tells whether a file was written: editors replace a file as often as they write into it. A change of its mode or owner
/// changes no stamp, because the content is the same.
package struct FileStamp: Equatable, Sendable {
    private let inode: UInt64
    private let bytes: Int64
    private let modified: [Int]

    /// nil while there is no such file.
    init?(_ path: String) {
        var found = stat()
        guard stat(path, &found) == 0 else { return nil }
        inode = UInt64(found.st_ino)
        bytes = Int64(found.st_size)
        modified = [found.st_mtim.tv_sec, found.st_mtim.tv_nsec]
    }
}
