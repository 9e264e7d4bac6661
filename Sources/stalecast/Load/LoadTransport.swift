import ArgumentParser

/// How the load's subscribers listen.
enum LoadTransport: String, ExpressibleByArgument, CaseIterable, Sendable {
    /// A stream of server-sent events.
    case sse
    /// Long-polls, the next sent as soon as one is answered.
    case poll
}

/// A length of time on the command line: `300ms`, `60s`, `2m`, or a plain number of seconds.
struct Span: ExpressibleByArgument, Sendable {
    let duration: Duration

    init(_ duration: Duration) { self.duration = duration }

    init?(argument: String) {
        let units: [(suffix: String, milliseconds: Double)] = [("ms", 1), ("s", 1000), ("m", 60_000), ("", 1000)]
        for unit in units where argument.hasSuffix(unit.suffix) {
            guard let count = Double(argument.dropLast(unit.suffix.count)), count >= 0, count < 1e6 else { return nil }
            duration = .milliseconds(Int64(count * unit.milliseconds))
            return
        }
        return nil
    }

    var nanoseconds: UInt64 { UInt64(duration / .nanoseconds(1)) }
    var defaultValueDescription: String {
        let milliseconds = Int(duration / .milliseconds(1))
        return milliseconds % 1000 == 0 ? "\(milliseconds / 1000)s" : "\(milliseconds)ms"
    }
}
