import StalecastOutbound
import StalecastWire

/// An attempt as it is stored.
///  Its bytes: a version of the layout, then numbers as variable-length integers and texts with their length; a number
/// or text that may be missing is preceded by 0 or 1.
struct AttemptRecord {
    let attempt: DeliveryAttempt
    /// The webhook's attempt before it; 0 for none.
    let previous: Int64

    private static let layout: UInt8 = 2
    /// Phases in the order in which they are stored.
    private static let phases: [any WritableKeyPath<OutboundOutcome.Phases, Int64> & Sendable] = [
        \.queue, \.dns, \.connect, \.tls, \.server, \.total,
    ]

    static func append(_ attempt: DeliveryAttempt, previous: Int64, to bytes: inout [UInt8]) {
        var writer = Writer(bytes: bytes)
        bytes = []
        writer.bytes.append(layout)
        writer.put(attempt.webhook.description)
        writer.put(previous)
        writer.put(attempt.startedAt.microseconds)
        writer.put(attempt.scope?.description)
        writer.put(attempt.version?.rawValue)
        writer.put(attempt.kind)
        writer.put(attempt.messageID)
        writer.put(Int64(attempt.number))
        writer.put(attempt.result.status.map(Int64.init))
        writer.put(attempt.result.name)
        writer.put(attempt.result.problem)
        writer.put(attempt.result.response)
        // Without the key paths of `phases`: they cost more than all else here.
        let times = attempt.phases
        for time in [times.queue, times.dns, times.connect, times.tls, times.server, times.total] { writer.put(time) }
        writer.put(attempt.nextAt?.microseconds)
        bytes = writer.bytes
    }

    /// Nil for bytes that ``append(_:previous:to:)`` has not written.
    init?(_ bytes: ArraySlice<UInt8>) {
        var reader = Reader(bytes)
        guard reader.byte() == Self.layout, let webhook = WebhookID(reader.text()) else { return nil }
        previous = reader.number()
        let startedAt = Timestamp(microseconds: reader.number())
        let scope = reader.optionalText().flatMap(Scope.init(stored:))
        let version = reader.optionalNumber().map { VersionNumber(clamping: $0) }
        let (kind, messageID) = (reader.text(), reader.text())
        let (number, status) = (reader.number(), reader.optionalNumber())
        let (outcome, problem, response) = (reader.text(), reader.optionalText(), reader.text())
        var phases = OutboundOutcome.Phases()
        for phase in Self.phases { phases[keyPath: phase] = reader.number() }
        let nextAt = reader.optionalNumber().map(Timestamp.init(microseconds:))
        guard reader.isWhole else { return nil }
        attempt = DeliveryAttempt(
            webhook: webhook, scope: scope, version: version, kind: kind, messageID: messageID, number: Int(number),
            startedAt: startedAt,
            result: AttemptResult(
                status: status.map(Int.init), name: outcome, problem: problem, response: response),
            phases: phases, nextAt: nextAt)
    }

    private struct Writer {
        var bytes: [UInt8]

        mutating func put(_ number: Int64) {
            var rest = UInt64(bitPattern: number)
            while rest >= 0x80 {
                bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
                rest >>= 7
            }
            bytes.append(UInt8(rest))
        }

        mutating func put(_ text: String) {
            put(Int64(text.utf8.count))
            bytes.append(contentsOf: text.utf8)
        }

        mutating func put(_ number: Int64?) {
            bytes.append(number == nil ? 0 : 1)
            if let number { put(number) }
        }

        mutating func put(_ text: String?) {
            bytes.append(text == nil ? 0 : 1)
            if let text { put(text) }
        }
    }

    /// Reads zeros and empty texts after the end.
    private struct Reader {
        private let bytes: ArraySlice<UInt8>
        private var next: Int
        private var isBroken = false

        init(_ bytes: ArraySlice<UInt8>) {
            self.bytes = bytes
            next = bytes.startIndex
        }

        /// True when everything was there and nothing is left.
        var isWhole: Bool { !isBroken && next == bytes.endIndex }

        mutating func byte() -> UInt8 {
            guard next < bytes.endIndex else {
                isBroken = true
                return 0
            }
            next += 1
            return bytes[next - 1]
        }

        mutating func number() -> Int64 {
            var value: UInt64 = 0
            for shift in stride(from: UInt64(0), to: 64, by: 7) {
                let byte = byte()
                value |= UInt64(byte & 0x7F) << shift
                if byte < 0x80 { return Int64(bitPattern: value) }
            }
            isBroken = true
            return 0
        }

        mutating func text() -> String {
            let count = number()
            guard count >= 0, count <= bytes.endIndex - next else {
                isBroken = true
                return ""
            }
            defer { next += Int(count) }
            return String(decoding: bytes[next..<next + Int(count)], as: UTF8.self)
        }

        mutating func optionalNumber() -> Int64? { byte() == 0 ? nil : number() }
        mutating func optionalText() -> String? { byte() == 0 ? nil : text() }
    }
}
