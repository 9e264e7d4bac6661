import Foundation

/// A directory of its own for one test.
final class Folder: Sendable {
    let path = NSTemporaryDirectory() + "stalecast-files-\(UUID().uuidString)"

    init() throws { try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true) }
    deinit { try? FileManager.default.removeItem(atPath: path) }  // Nothing depends on it being gone.

    func file(_ name: String) -> String { "\(path)/\(name)" }

    func write(_ text: String, to name: String) throws {
        try text.write(toFile: file(name), atomically: false, encoding: .utf8)
    }

    func link(_ name: String, to destination: String) throws {
        try FileManager.default.createSymbolicLink(atPath: file(name), withDestinationPath: destination)
    }

    func makeFolder(_ name: String) throws {
        try FileManager.default.createDirectory(atPath: file(name), withIntermediateDirectories: true)
    }

    func remove(_ name: String) throws { try FileManager.default.removeItem(atPath: file(name)) }

    func replace(_ name: String, with other: String) { rename(file(other), file(name)) }
}
