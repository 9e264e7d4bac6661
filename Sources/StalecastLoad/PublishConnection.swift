import Foundation

/// One publish over a plain connection that stands before the clock starts. The HTTP library of the other commands
/// costs a millisecond per request, now and then forty: more than what is measured.
package struct PublishConnection: Sendable {
    private let descriptor: Int32
    private let target: LoadTarget

    /// Answer to a publish.
    package struct Answer: Sendable {
        package let status: Int
        /// nil when the answer has none.
        package let etag: String?
        package let body: [UInt8]
    }

    /// Seconds without a byte of the answer after which the outcome is unknown.
    private static let idleLimitSeconds = 30
    private static let maxAnswerBytes = 64 << 20

    /// Connects to Control; to be sent on once.
    /// - Throws: ``LoadProblem`` `unreachable`.
    package init(_ target: LoadTarget) throws(LoadProblem) {
        descriptor = socket(target.family, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        self.target = target
        var limit = timeval(tv_sec: Self.idleLimitSeconds, tv_usec: 0)
        let size = socklen_t(MemoryLayout<timeval>.size)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, size)
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, size)
        guard descriptor >= 0, LoadTarget.startConnecting(descriptor, to: target.socketAddress) == 0 else {
            let reason = String(cString: strerror(errno))
            discard()
            throw LoadProblem(.unreachable, "no server answers at \(target.url) any more (\(reason))")
        }
    }

    /// Closes the connection.
    func discard() { if descriptor >= 0 { close(descriptor) } }

    /// Sends the request and returns the answer, whatever its status; closes the connection.
    /// - Throws: ``LoadProblem`` `outcomeUnknown` when there is none.
    package func exchange(_ request: [UInt8]) async throws(LoadProblem) -> Answer {
        // A thread of its own waits, so that none of the few that run tasks is blocked.
        let answer: Answer? = await withCheckedContinuation { continuation in
            Thread.detachNewThread { continuation.resume(returning: exchangeBlocking(request)) }
        }
        if let answer { return answer }
        throw LoadProblem(
            .outcomeUnknown, "the connection to \(target.url) broke before the answer to the publish",
            advice: "The change may have been made. `stalecast versions` shows it.")
    }

    private func exchangeBlocking(_ request: [UInt8]) -> Answer? {
        defer { discard() }
        guard sendAll(request) else { return nil }
        var received: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while received.count < Self.maxAnswerBytes {
            let count = recv(descriptor, &buffer, buffer.count, 0)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { break }
            received += buffer[..<count]
            if let answer = Self.answer(received) { return answer }
        }
        return nil
    }

    private func sendAll(_ request: [UInt8]) -> Bool {
        var sent = 0
        while sent < request.count {
            let count = request.withUnsafeBytes {
                send(descriptor, $0.baseAddress! + sent, $0.count - sent, Int32(MSG_NOSIGNAL))
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return false }
            sent += count
        }
        return true
    }

    /// The answer when `received` holds all of it. Only the ETag is kept of its fields.
    package static func answer(_ received: [UInt8]) -> Answer? {
        received.withUnsafeBytes { bytes in
            guard let head = AnswerHead(bytes) else { return nil }
            let rest = bytes.part(head.byteCount..<bytes.count)
            var body: [UInt8] = []
            switch head.framing {
            case .length(let count) where rest.count >= count: body = Array(rest[..<count])
            case .length, .untilClose: return nil
            case .chunked:
                var chunks = ChunkDecoder()
                _ = chunks.decode(rest) { body.append(contentsOf: $0) }
                guard chunks.hasEnded else { return nil }
            }
            let fields = String(decoding: bytes[..<head.byteCount], as: UTF8.self).components(separatedBy: "\r\n")
            let etag = fields.first { $0.lowercased().hasPrefix("etag:") }
                .map { $0.dropFirst(5).trimmingCharacters(in: .whitespaces) }
            return Answer(status: head.status, etag: etag, body: body)
        }
    }
}
