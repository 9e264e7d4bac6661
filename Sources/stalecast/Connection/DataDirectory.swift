import ArgumentParser
import Foundation
import StalecastWire

/// `--data`, shared by the commands that work on a directory and those that look up a running daemon in it.
struct DataOptions: ParsableArguments {
    @Option(
        name: .customLong("data"),
        help: .value("dir", "The daemon's data directory (or $STALECAST_DATA)."),
        completion: .directory)
    var path: String?

    var directory: DataDirectory { DataDirectory(path: named ?? Self.here) }

    /// Directory in which a running daemon is looked up: where none is named and none is here, that of the installed
    /// service, which shares its address and token with the members of its group in systemd's runtime directory.
    ///
    /// - Parameter isPlaced: a flag says where the daemon is, so the context's directory is another one's.
    func running(isPlaced: Bool = false) -> DataDirectory {
        // A broken contexts file was reported when the address was looked up.
        guard path == nil, let surroundings = try? Surroundings.current.get() else { return directory }
        if let data = surroundings.value(.data, isPlaced: isPlaced) { return DataDirectory(path: data) }
        let isHere = FileManager.default.fileExists(atPath: Self.here)
        let hasService = FileManager.default.fileExists(atPath: DataDirectory.service.path)
        return !isHere && hasService ? .service : DataDirectory(path: Self.here)
    }

    private static let here = "./stalecast-data"

    private var named: String? {
        let fromEnvironment = ProcessInfo.processInfo.environment["STALECAST_DATA"] ?? ""
        return path ?? (fromEnvironment.isEmpty ? nil : fromEnvironment)
    }
}

/// Files that a running daemon leaves in its data directory for its clients.
struct DataDirectory: Sendable {
    /// Directory that systemd makes for the unit `stalecast.service`.
    static let service = DataDirectory(path: "/run/stalecast")
    /// Data directory of the unit `stalecast.service`.
    static let ofUnit = DataDirectory(path: "/var/lib/stalecast")
    /// Whether the unit has run on this machine. Its directory is a link to one that only root may look at, so the link
    /// counts.
    static var hasUnit: Bool { (try? FileManager.default.attributesOfItem(atPath: ofUnit.path)) != nil }

    let path: String

    var exists: Bool { FileManager.default.fileExists(atPath: path) }
    var endpointsFile: String { path + "/endpoints.json" }
    /// Whether there is certainly no `endpoints.json`; false for one that may not be looked at.
    var hasNoEndpoints: Bool { access(endpointsFile, F_OK) != 0 && errno == ENOENT }
    var tokenFile: String { path + "/control.token" }

    /// The addresses the daemon really bound, written once both listeners accept.
    struct Endpoints: Sendable {
        let edge: String
        let control: String
        /// The daemon's process; nil when the file does not say.
        let process: Int32?

        /// False when that process has certainly ended; a process of another user counts as running.
        var isRunning: Bool { process.map { kill($0, 0) == 0 || errno == EPERM } ?? true }
    }

    /// Reads `endpoints.json`.
    /// - Throws: ``CommandFailure`` `unreachable` when the file is not there or is not what a daemon writes.
    func endpoints() throws(CommandFailure) -> Endpoints {
        let bytes: Data
        do {
            bytes = try InputFile.contents(of: endpointsFile)
        } catch {
            let isForbidden = error.reason == "permission denied"
            throw CommandFailure(
                .unreachable,
                isForbidden
                    ? "\(endpointsFile) may not be read (permission denied)"
                    : "no daemon found: \(endpointsFile) cannot be read (\(error.reason))",
                advice: isForbidden ? "Run this as the user that runs the daemon, or as root (sudo)." : advice)
        }
        guard let json = JSONValue.ifValid(bytes),  // whatever is wrong with it, the sentence is the same
            let edge = json["edge"]?.string, let control = json["control"]?.string
        else {
            throw CommandFailure(
                .unreachable, "\(endpointsFile) is not what a daemon writes: \"edge\" and \"control\" are expected",
                advice: advice)
        }
        return Endpoints(edge: edge, control: control, process: json["pid"]?.int64.flatMap { Int32(exactly: $0) })
    }

    private var advice: String {
        "Start it with `stalecast serve --data \(path)`, or say where it is: --data DIR, or --control URL "
            + "--token-file FILE (and --edge URL to watch)."
    }
}
