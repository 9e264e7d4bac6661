import Glibc
import Logging
import ServiceLifecycle

/// Notices that the system's clock was set: between two readings it moved by more or less than the time that passed.
package struct ClockWatch: Sendable {
    /// Both clocks at one moment.
    package struct Reading: Sendable {
        let wall: Duration
        /// Time since the machine's start, sleep included.
        let sinceBoot: Duration

        package init(wall: Duration, sinceBoot: Duration) { (self.wall, self.sinceBoot) = (wall, sinceBoot) }

        static var now: Reading { Reading(wall: read(CLOCK_REALTIME), sinceBoot: timeSinceBoot()) }

        /// Time since the machine's start, sleep included.
        package static func timeSinceBoot() -> Duration { read(CLOCK_BOOTTIME) }

        private static func read(_ clock: clockid_t) -> Duration {
            var time = timespec()
            clock_gettime(clock, &time)
            return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
        }
    }

    /// A time service corrects less than this without a step; the two readings are not quite of one moment either.
    private static let tolerance = Duration.seconds(2)
    private var last: Reading

    package init(_ first: Reading) { last = first }

    /// Step of the system's clock since the reading before, negative when it was put back; nil when it went with time.
    package mutating func step(to now: Reading) -> Duration? {
        defer { last = now }
        let step = (now.wall - last.wall) - (now.sinceBoot - last.sinceBoot)
        return step > Self.tolerance || step < .zero - Self.tolerance ? step : nil
    }

    /// Says each step in the log, once: times of versions, audit lines and retention follow the clock.
    static func run(_ logger: Logger) async {
        var watch = ClockWatch(.now)
        for await _ in AsyncTimer(period: .seconds(5)).cancelOnGracefulShutdown() {
            guard let step = watch.step(to: .now) else { continue }
            let seconds = Int64((step / .seconds(1)).rounded())
            let metadata: Logger.Metadata = ["seconds": "\(abs(seconds))", "command": "timedatectl"]
            if seconds < 0 {
                logger.warning(
                    "the system clock was put back: ages are too small, times of audit lines go back",
                    metadata: metadata)
            } else {
                logger.warning("the system clock was put forward", metadata: metadata)
            }
        }
    }
}
