import StalecastOutbound
import StalecastWire

/// An attempt as bytes: one column instead of sixteen, because there is a row for every request.
///
/// A version of the layout, then numbers as variable-length integers and texts with their length; a number or text that
/// may be missing is preceded by 0 or 1.
enum AttemptRecord {
    private static let layout: UInt8 = 1

    /// Everything but webhook and start.
    static func bytes(of attempt: DeliveryAttempt) -> [UInt8] {
        var writer = Writer()
        writer.bytes.append(layout)
        writer.put(attempt.scope?.description)
        writer.put(attempt.version)
        writer.put(attempt.kind)
        writer.put(attempt.messageID)
        writer.put(Int64(attempt.number))
        writer.put(attempt.status.map(Int64.init))
        writer.put(attempt.outcome)
        writer.put(attempt.problem)
        writer.put(attempt.response)
        let phases = attempt.phases
        for part in [phases.queue, phases.dns, phases.connect, phases.tls, phases.server, phases.total] {
            writer.put(part)
        }
        writer.put(attempt.nextAt?.microseconds)
        return writer.bytes
    }

    /// Nil for bytes that were not written by ``bytes(of:)``.
    static func attempt(_ bytes: [UInt8], of webhook: WebhookID, startedAt: Timestamp) -> DeliveryAttempt? {
        var reader = Reader(bytes)
        guard reader.byte() == layout else { return nil }
        let scope = reader.optionalText().flatMap(Scope.init(stored:))
        let version = reader.optionalNumber()
        let (kind, messageID) = (reader.text(), reader.text())
        let (number, status) = (reader.number(), reader.optionalNumber())
        let (outcome, problem, response) = (reader.text(), reader.optionalText(), reader.text())
        var phases = OutboundPhases()
        phases.queue = reader.number()
        phases.dns = reader.number()
        phases.connect = reader.number()
        phases.tls = reader.number()
        phases.server = reader.number()
        phases.total = reader.number()
        let nextAt = reader.optionalNumber().map(Timestamp.init(microseconds:))
        guard reader.isWhole else { return nil }
        return DeliveryAttempt(
            webhook: webhook, scope: scope, version: version, kind: kind, messageID: messageID, number: Int(number),
            startedAt: startedAt, status: status.map(Int.init), outcome: outcome, problem: problem,
            response: response, phases: phases, nextAt: nextAt)
    }

    private struct Writer {
        var bytes: [UInt8] = []

        init() { bytes.reserveCapacity(128) }

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
        private let bytes: [UInt8]
        private var next = 0
        private var isBroken = false

        init(_ bytes: [UInt8]) { self.bytes = bytes }

        /// True when everything was there and nothing is left.
        var isWhole: Bool { !isBroken && next == bytes.count }

        mutating func byte() -> UInt8 {
            guard next < bytes.count else {
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
            guard count >= 0, count <= bytes.count - next else {
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
