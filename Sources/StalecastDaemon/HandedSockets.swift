import Foundation

/// Sockets that systemd opened and keeps for this process (`sd_listen_fds(3)`): connections wait in them while the
/// daemon restarts, instead of being refused.
package struct HandedSockets: Sendable {
    /// Descriptors by the names of `FileDescriptorName=`.
    private let named: [(name: String, descriptor: Int32)]

    /// All descriptors, which the program must find again when it restarts within this process.
    package var descriptors: [Int32] { named.map(\.descriptor) }

    /// Edge's; nil when Edge opens its own. A socket unit that gives no name has its own file's.
    package var edge: Int32? { named.first { $0.name == "edge" || $0.name == "stalecast.socket" }?.descriptor }

    /// The first that systemd hands over, after standard input, output and error.
    private static let first: Int32 = 3

    package init(
        _ environment: [String: String] = ProcessInfo.processInfo.environment,
        process: Int32 = ProcessInfo.processInfo.processIdentifier
    ) {
        // The variables are inherited: those of another process name descriptors that are not here.
        guard environment["LISTEN_PID"] == String(process), let text = environment["LISTEN_FDS"],
            let count = Int32(text),
            (1...64).contains(count)
        else {
            named = []
            return
        }
        let names = (environment["LISTEN_FDNAMES"] ?? "").split(separator: ":")
        named = (0..<count).map { index in
            (names.indices.contains(Int(index)) ? String(names[Int(index)]) : "stalecast.socket", Self.first + index)
        }
    }
}
