package import Foundation

/// A directory of its own for one test, removed with its last reference.
package final class TemporaryDirectory: Sendable {
    package let path: String

    package init() throws {
        path = NSTemporaryDirectory() + "stalecast-test-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }  // Nothing depends on it being gone.

    /// The path of a file in it, there or not.
    package func file(_ name: String) -> String { path + "/" + name }

    package func bytes(_ name: String) throws -> Data { try Data(contentsOf: URL(fileURLWithPath: file(name))) }

    package func write(_ data: Data, to name: String) throws {
        try data.write(to: URL(fileURLWithPath: file(name)))
    }
}
