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

    /// Appends a record's beginning; ``appendRest(of:to:)`` writes the rest, which does not depend on other attempts.
    static func appendStart(_ webhook: WebhookID, previous: Int64, to bytes: inout [UInt8]) {
        var writer = Writer(bytes: bytes)
        bytes = []
        writer.bytes.append(layout)
        writer.put(webhook)
        writer.put(previous)
        bytes = writer.bytes
    }

    static func appendRest(of attempt: DeliveryAttempt, to bytes: inout [UInt8]) {
        var writer = Writer(bytes: bytes)
        bytes = []
        writer.put(attempt.startedAt.microseconds)
        writer.put(attempt.scope)
        writer.put(attempt.version?.rawValue)
        writer.put(attempt.kind)
        writer.put(attempt.messageID)
        writer.put(Int64(attempt.number))
        writer.put(attempt.result.status.map(Int64.init))
        writer.put(attempt.result.name)
        writer.put(attempt.result.problem)
        writer.put(attempt.result.response)
        // Without the key paths of `phases`, nor a list of them: both cost more than all else here.
        let times = attempt.phases
        writer.put(times.queue)
        writer.put(times.dns)
        writer.put(times.connect)
        writer.put(times.tls)
        writer.put(times.server)
        writer.put(times.total)
        writer.put(attempt.nextAt?.microseconds)
        bytes = writer.bytes
    }

    /// Nil for other bytes than ``appendStart(_:previous:to:)`` and ``appendRest(of:to:)`` write.
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

        mutating func put(_ id: WebhookID) {
            put(Int64(WebhookID.textLength))
            withUnsafeTemporaryAllocation(byteCount: WebhookID.textLength, alignment: 1) { text in
                id.write(to: text)
                bytes.append(contentsOf: text)
            }
        }

        /// A scope's ``Scope/description``.
        mutating func put(_ scope: Scope?) {
            bytes.append(scope == nil ? 0 : 1)
            guard let scope else { return }
            let (project, namespace) = (scope.project.description.utf8, scope.namespace.description.utf8)
            put(Int64(project.count + 1 + namespace.count))
            bytes.append(contentsOf: project)
            bytes.append(UInt8(ascii: "/"))
            bytes.append(contentsOf: namespace)
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
