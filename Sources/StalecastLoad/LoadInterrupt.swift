import Foundation
import Synchronization

/// Ctrl-C while a load runs: the first asks it to stop and report, the second ends the process at once.
package enum LoadInterrupt {
    /// The exit code of a process ended by SIGINT, as shells count.
    package static let exitCode: Int32 = 130

    private static let asked = Atomic<Bool>(false)

    package static var isAsked: Bool { asked.load(ordering: .acquiring) }

    package static func watch() {
        signal(SIGINT) { _ in
            if LoadInterrupt.asked.exchange(true, ordering: .acquiringAndReleasing) { _exit(LoadInterrupt.exitCode) }
        }
    }
}
