import Foundation
package import StalecastWire

/// What it took to connect all subscribers once.
package struct ConnectResult: Sendable {
    package let asked: Int
    package let counts: LoadTally.Counts
    /// Nanoseconds of the monotonic clock.
    package let startedAt: UInt64
    package let generatorCpuNs: UInt64
    /// The server before and after; nil when its process is not known.
    package let before: ServerProbe.Reading?
    package let after: ServerProbe.Reading?

    package var ready: Int { counts.ready }
    package var isComplete: Bool { counts.ready == asked }

    /// From the first connection's begin to the last one that stood.
    package var seconds: Double? {
        counts.lastReadyAt > startedAt ? Double(counts.lastReadyAt - startedAt) / 1e9 : nil
    }

    package var ratePerSecond: Double? { seconds.map { Double(ready) / $0 } }

    /// Server CPU per connection in µs, from accept to `synced`.
    package var serverMicroseconds: Double? {
        guard let before, let after, ready > 0 else { return nil }
        return Double(after.cpuNs(since: before)) / 1000 / Double(ready)
    }

    package var generatorMicroseconds: Double? { ready > 0 ? Double(generatorCpuNs) / 1000 / Double(ready) : nil }

    /// Growth of the server's resident memory per subscriber, in bytes.
    package var residentBytesEach: Double? {
        guard let before, let after, ready > 0 else { return nil }
        return Double(after.residentBytes - before.residentBytes) / Double(ready)
    }

    package var json: JSONValue {
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
    package static func measured(_ value: Double?) -> JSONValue {
        value.map { .double(($0 * 10_000).rounded() / 10_000) } ?? .null
    }
}

extension LoadFailure {
    /// In words, for a sentence.
    package var sentence: String {
        switch self {
        case .system(let error): String(cString: strerror(error))
        case .status(let status): "the server answered with HTTP status \(status)"
        case .ended: "the server ended the connection"
        case .broken: "what came is not what Edge sends"
        }
    }
}
