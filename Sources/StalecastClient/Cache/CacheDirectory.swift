public import Foundation

/// Directory of caches unless ``StalecastOptions/cacheDirectory`` names another: `Application Support/Stalecast/<bundle
/// id>` on Apple's systems; elsewhere `$XDG_CACHE_HOME/stalecast/<program>`, by default below `~/.cache`.
public enum CacheDirectory {
    /// The default directory; it need not exist yet.
    public static func standard() -> URL {
        root().appendingPathComponent(program(), isDirectory: true)
    }

    private static func root() -> URL {
        #if canImport(Darwin)
            let places = FileManager.default.urls(for: .applicationSupportDirectory, in: .userDomainMask)
            return (places.first ?? FileManager.default.temporaryDirectory).appendingPathComponent("Stalecast")
        #else
            let named = ProcessInfo.processInfo.environment["XDG_CACHE_HOME"] ?? ""
            let home = FileManager.default.homeDirectoryForCurrentUser.appendingPathComponent(".cache")
            let base = named.hasPrefix("/") ? URL(fileURLWithPath: named) : home
            return base.appendingPathComponent("stalecast")
        #endif
    }

    private static func program() -> String {
        Bundle.main.bundleIdentifier.flatMap { $0.isEmpty ? nil : $0 } ?? ProcessInfo.processInfo.processName
    }

    /// A name of any characters as a file's name: all but letters, digits, `-`, `_` and `.` are spelled as `%XX`, which
    /// keeps different names different.
    static func fileName(_ name: String) -> String {
        let plain = CharacterSet(charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")
        let spelled = name.addingPercentEncoding(withAllowedCharacters: plain) ?? "unnamed"
        return spelled.hasPrefix(".") ? "%2E" + spelled.dropFirst() : spelled
    }

    /// Removes all but the `count` files written last of those whose paths begin as `prefix`.
    static func keepNewest(_ count: Int, beginningWith prefix: URL) {
        // Drafts belong to other writers, who rename or remove them.
        let whole = files(beginningWith: prefix).filter { !SealedFile.isDraft($0.path) }
        for (path, _) in whole.sorted(by: { $0.changed > $1.changed }).dropFirst(count) { unlink(path) }
    }

    /// The files whose paths begin as `prefix`, with the time of their last change.
    static func files(beginningWith prefix: URL) -> [(path: String, changed: Date)] {
        let directory = prefix.deletingLastPathComponent()
        // Without the directory there are none, and what has no time was removed by another process.
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory.path)) ?? []
        return names.filter { $0.hasPrefix(prefix.lastPathComponent) }.compactMap { name in
            let path = directory.appendingPathComponent(name).path
            let attributes = try? FileManager.default.attributesOfItem(atPath: path)  // gone meanwhile
            return (attributes?[.modificationDate] as? Date).map { (path, $0) }
        }
    }

    /// ``fileName(_:)`` for names of any length, cut where file systems might (255 bytes); two long names may come out
    /// the same, so that the file itself must say whose it is.
    static func shortFileName(_ name: String) -> String {
        let whole = fileName(name)
        guard whole.count > 100 else { return whole }
        return "\(whole.prefix(80))-\(String(SealedFile.checksum(of: Data(name.utf8)), radix: 16))"
    }
}
