import Foundation

/// systemd's directory of a running service. Members of the service's group find there what the command line needs,
/// because the data directory is the service's alone.
struct RuntimeDirectory {
    private let path: String

    /// nil without systemd's `RUNTIME_DIRECTORY`.
    static var current: RuntimeDirectory? {
        ProcessInfo.processInfo.environment["RUNTIME_DIRECTORY"].map { RuntimeDirectory(path: $0) }
    }

    /// Puts a copy of `file` there that the group may read; where that cannot be, none, as an old one would mislead.
    func share(_ file: String, as name: String? = nil) {
        let copy = place(of: name ?? file)
        do {
            try String(contentsOfFile: file, encoding: .utf8).writePrivately(to: copy, mode: 0o640)
        } catch {
            unlink(copy)
        }
    }

    func withdraw(_ file: String) { unlink(place(of: file)) }

    private func place(of file: String) -> String { "\(path)/\(URL(fileURLWithPath: file).lastPathComponent)" }
}
