import Foundation
import StalecastWire

/// What it took to connect all subscribers once.
struct ConnectResult: Sendable {
    let asked: Int
    let counts: LoadTally.Counts
    /// Nanoseconds of the monotonic clock.
    let startedAt: UInt64
    let generatorCpuNs: UInt64
    /// The server before and after; nil when its process is not known.
    let before: ServerProbe.Reading?
    let after: ServerProbe.Reading?

    var ready: Int { counts.ready }
    var isComplete: Bool { counts.ready == asked }

    /// From the first connection's begin to the last one that stood.
    var seconds: Double? {
        counts.lastReadyAt > startedAt ? Double(counts.lastReadyAt - startedAt) / 1e9 : nil
    }

    var ratePerSecond: Double? { seconds.map { Double(ready) / $0 } }

    /// Server CPU per connection in µs, from accept to `synced`.
    var serverMicroseconds: Double? {
        guard let before, let after, ready > 0 else { return nil }
        return Double(after.cpuNs(since: before)) / 1000 / Double(ready)
    }

    var generatorMicroseconds: Double? { ready > 0 ? Double(generatorCpuNs) / 1000 / Double(ready) : nil }

    /// Growth of the server's resident memory per subscriber, in bytes.
    var residentBytesEach: Double? {
        guard let before, let after, ready > 0 else { return nil }
        return Double(after.residentBytes - before.residentBytes) / Double(ready)
    }

    var json: JSONValue {
        [
            "asked": .int(asked), "connected": .int(ready), "refused": .int(counts.refused),
            "seconds": .measured(seconds), "ratePerSecond": .measured(ratePerSecond),
            "serverCpuMicrosecondsEach": .measured(serverMicroseconds),
            "generatorCpuMicrosecondsEach": .measured(generatorMicroseconds),
        ]
    }
}

extension JSONValue {
    /// A figure to four decimals; null when it could not be measured.
    static func measured(_ value: Double?) -> JSONValue {
        value.map { .double(($0 * 10_000).rounded() / 10_000) } ?? .null
    }
}

extension LoadFailure {
    /// In words, for a sentence.
    var sentence: String {
        switch self {
        case .system(let error): String(cString: strerror(error))
        case .status(let status): "the server answered with HTTP status \(status)"
        case .ended: "the server ended the connection"
        case .broken: "what came is not what Edge sends"
        }
    }
}
