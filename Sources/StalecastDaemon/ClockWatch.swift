import Glibc
import Logging
import ServiceLifecycle
package import StalecastWire

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

    /// Time by which the clock is behind what the former daemon wrote last; nil when it is not behind.
    package static func setBack(now: Timestamp, since former: Timestamp?) -> Duration? {
        let behind = former.map { Duration.microseconds($0.microseconds - now.microseconds) } ?? .zero
        return behind > tolerance ? behind : nil
    }

    /// Shortcoming of a clock that is behind what the former daemon wrote last; nil when it is not behind.
    package static func sentence(now: Timestamp, since former: Timestamp?) -> String? {
        setBack(now: now, since: former).map { behind in
            let seconds = Int64((behind / .seconds(1)).rounded())
            return "the system clock is \(seconds) s behind the last audit line of the run before"
        }
    }

    /// Says in the log that the clock was put back while no daemon ran.
    static func check(against former: Timestamp?, _ logger: Logger) {
        guard let behind = setBack(now: .now(), since: former) else { return }
        logger.warning(
            "the system clock is behind the last audit line: ages are too small, times of audit lines go back",
            metadata: ["seconds": "\(Int64((behind / .seconds(1)).rounded()))", "command": "timedatectl"])
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
