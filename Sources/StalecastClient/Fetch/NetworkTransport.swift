import Foundation

/// HTTP over the network, as the SDK's streams go: `URLSession` on Apple's systems, libcurl on Linux. It keeps no
/// cookies and no cache, and follows redirects without taking secrets to another origin.
public struct NetworkTransport: HTTPTransport {
    /// The process's transport.
    public static let shared = NetworkTransport()

    /// The longest answer that is read, in bytes: a template's limit is far below.
    static let maxAnswerBytes = 16 << 20

    /// Sends the request; throws a sentence when there is no complete answer within its timeout.
    public func send(_ request: TransportRequest) async throws -> TransportResponse {
        let exchange = WholeExchange(request, on: .shared)
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { exchange.start($0) }
        } onCancel: {
            exchange.cancel()
        }
    }

    /// Reason why there is no answer.
    struct Failure: LocalizedError {
        let errorDescription: String?
    }

    /// One exchange that is read to its end, redirects included, under one time limit.
    ///
    /// `@unchecked`: touched on the loop's thread only.
    private final class WholeExchange: @unchecked Sendable {
        private let loop: LinkLoop
        private let timeout: TimeInterval
        private var request: StreamRequest
        private var continuation: CheckedContinuation<TransportResponse, any Error>?
        private var exchange: (any StreamExchange)?
        private var timer: Int?
        private var hops = 0
        private var head = ResponseHead(status: 0)
        private var body: [UInt8] = []
        private var isCancelled = false

        init(_ request: TransportRequest, on loop: LinkLoop) {
            self.loop = loop
            timeout = request.timeout
            self.request = StreamRequest(
                method: request.method, url: request.url, headers: request.headers, body: request.body.map { Array($0) }
            )
            self.request.authorityFile = request.authorityFile
        }

        func start(_ continuation: CheckedContinuation<TransportResponse, any Error>) {
            loop.perform { [self] in
                if isCancelled { return continuation.resume(throwing: CancellationError()) }
                self.continuation = continuation
                timer = loop.after(timeout) { [self] in fail("no complete answer within \(timeout) s") }
                open()
            }
        }

        func cancel() {
            loop.perform { [self] in
                isCancelled = true
                end(.failure(CancellationError()))
            }
        }

        private func open() {
            let hop = hops
            body = []
            exchange = loop.start(request) { [self] event in
                if hop == hops { received(event) }
            }
        }

        private func received(_ event: StreamEvent) {
            switch event {
            case .head(let head):
                self.head = head
                if Redirect.isRedirect(head.status) { follow() }
            case .bytes(let bytes):
                body += bytes
                let limit = NetworkTransport.maxAnswerBytes
                if body.count > limit { fail("the answer is longer than \(limit) bytes") }
            case .end: end(.success(TransportResponse(status: head.status, headers: head.headers, body: Data(body))))
            case .failed(let reason): fail(reason)
            }
        }

        private func follow() {
            exchange?.cancel()
            hops += 1
            do throws(Redirect.Refused) {
                request = try Redirect.next(request, head, hop: hops)
                open()
            } catch {
                fail(error.description)
            }
        }

        private func fail(_ reason: String) { end(.failure(NetworkTransport.Failure(errorDescription: reason))) }

        private func end(_ result: Result<TransportResponse, any Error>) {
            loop.cancelTimer(timer)
            hops += 1
            exchange?.cancel()
            exchange = nil
            continuation?.resume(with: result)
            continuation = nil
        }
    }
}
