import Foundation

/// Reads CPU time and memory of the daemon's process out of `/proc`, when it runs on this machine.
package struct ServerProbe: Sendable {
    /// Resources that a process has used; differences count.
    package struct Reading: Sendable {
        /// CPU time of all its threads, in nanoseconds, from the scheduler.
        package let cpuNs: UInt64
        /// Resident memory in bytes.
        package let residentBytes: Int

        /// CPU time since `earlier`, in nanoseconds; threads that ended meanwhile do not count.
        package func cpuNs(since earlier: Reading) -> UInt64 { cpuNs > earlier.cpuNs ? cpuNs - earlier.cpuNs : 0 }
    }

    package let process: Int32

    package init(process: Int32) { self.process = process }

    /// The figures now; nil when the process has ended or the kernel keeps no scheduler statistics.
    package func read() -> Reading? {
        let tasks = "/proc/\(process)/task"
        // The process has ended.
        guard let threads = try? FileManager.default.contentsOfDirectory(atPath: tasks) else { return nil }
        var cpuNs: UInt64 = 0
        for thread in threads {  // a thread may end between the listing and the reading
            let text = (try? String(contentsOfFile: "\(tasks)/\(thread)/schedstat", encoding: .utf8)) ?? ""
            cpuNs += text.split(separator: " ").first.flatMap { UInt64($0) } ?? 0
        }
        guard cpuNs > 0, let status = try? String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8),
            let resident = Self.bytes("VmRSS:", in: status)
        else { return nil }
        return Reading(cpuNs: cpuNs, residentBytes: resident)
    }

    private static func bytes(_ field: String, in status: String) -> Int? {
        guard let line = status.split(separator: "\n").first(where: { $0.hasPrefix(field) }) else { return nil }
        return line.split { $0 == " " || $0 == "\t" }.dropFirst().first.flatMap { Int($0) }.map { $0 * 1024 }
    }
}
