import CLinux
import Foundation

/// Resources that this process uses, as the kernel reports them.
struct ProcessUsage {
    let cpuSeconds: Double
    let residentBytes: Int
    let descriptors: Int
    /// The limit in force.
    let maxDescriptors: UInt64

    static func now() -> ProcessUsage {
        ProcessUsage(
            cpuSeconds: Double(stalecast_process_cpu_ns()) / 1e9, residentBytes: resident(),
            descriptors: openDescriptors(), maxDescriptors: stalecast_raise_descriptor_limit())
    }

    /// 0 where there is no /proc.
    private static func resident() -> Int {
        // Systems without /proc simply have no figure.
        let statm = (try? String(contentsOfFile: "/proc/self/statm", encoding: .ascii)) ?? ""
        // The second number counts resident pages (proc(5)).
        let pages = statm.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
        return pages * Int(sysconf(Int32(_SC_PAGESIZE)))
    }

    private static func openDescriptors() -> Int {
        guard let directory = opendir("/proc/self/fd") else { return 0 }
        defer { closedir(directory) }
        var count = -3  // ".", ".." and the directory's own
        while readdir(directory) != nil { count += 1 }
        return count
    }
}
