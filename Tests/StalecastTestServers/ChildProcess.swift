import Foundation
import Synchronization

/// A program that runs beside a test, by `posix_spawn` and `waitpid`. Foundation's `Process` hears of an end by a descriptor
/// that other programs inherit when they begin at the same moment, and then waits for the ends of those.
package final class ChildProcess: Sendable {
    /// Error that `posix_spawn` returns.
    package struct CannotStart: Error { package let code: Int32 }

    private let pid: pid_t
    private let status = Mutex<Int32?>(nil)

    /// Starts a process without input.
    ///
    /// - Parameters:
    ///   - environment: nil takes the test's.
    ///   - output: a descriptor for its standard output.
    package init(
        _ program: String, _ arguments: [String], environment: [String: String]? = nil, output: Int32? = nil
    ) throws {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        if let output {
            posix_spawn_file_actions_adddup2(&actions, output, 1)
        } else {
            posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0)
        }
        posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)
        Self.closeDescriptorsAtExec()
        let variables = environment ?? ProcessInfo.processInfo.environment
        let words = ([program] + arguments).map { strdup($0) } + [nil]
        let settings = variables.map { strdup("\($0)=\($1)") } + [nil]
        defer { for text in words + settings { free(text) } }
        var pid: pid_t = 0
        let code = posix_spawn(&pid, program, &actions, nil, words, settings)
        guard code == 0 else { throw CannotStart(code: code) }
        self.pid = pid
    }

    /// Marks all descriptors of this process as closed in programs it starts. A program that inherited the connections
    /// of other tests would keep them open after those tests have closed them.
    private static func closeDescriptorsAtExec() {
        for name in (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? [] {
            if let descriptor = Int32(name), descriptor > 2 { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
        }
    }

    package func signal(_ signal: Int32) {
        // Of one that is gone the number may be another's.
        if status.withLock({ $0 == nil }) { kill(pid, signal) }
    }

    /// Waits for its end; blocks.
    ///
    /// - Returns: what it ended with, or 128 and the signal that ended it.
    @discardableResult
    package func wait() -> Int32 {
        status.withLock { known in
            if let known { return known }
            var status: Int32 = 0
            while waitpid(pid, &status, 0) < 0 && errno == EINTR {}
            let code = status & 0x7F == 0 ? status >> 8 & 0xFF : 128 + (status & 0x7F)
            known = code
            return code
        }
    }

    /// Ends it with SIGKILL, and waits.
    package func end() {
        signal(SIGKILL)
        wait()
    }
}
