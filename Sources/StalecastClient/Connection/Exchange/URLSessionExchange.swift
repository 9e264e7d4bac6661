import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// An exchange over Foundation's `URLSession`: with TLS, the system's proxies and, on Apple's systems, its rules.
///
/// `@unchecked`: touched on the loop's thread only.
final class URLSessionExchange: StreamExchange, @unchecked Sendable {
    private let task: URLSessionDataTask
    private let handler: StreamHandler
    private var isEnded = false

    init(_ request: StreamRequest, on loop: LinkLoop, _ handler: @escaping StreamHandler) {
        self.handler = handler
        var outgoing = URLRequest(url: request.url, timeoutInterval: Session.longestSilence)
        outgoing.httpMethod = request.method
        outgoing.httpBody = request.body.map { Data($0) }
        for (name, value) in request.headers { outgoing.setValue(value, forHTTPHeaderField: name) }
        task = Session.shared.task(outgoing)
        Session.shared.bind(task) { [weak self] event in loop.perform { [weak self] in self?.report(event) } }
        task.resume()
    }

    func cancel() {
        isEnded = true
        task.cancel()
    }

    func pause() { task.suspend() }

    func resume() { task.resume() }

    private func report(_ event: StreamEvent) {
        guard !isEnded else { return }
        switch event {
        case .end, .failed: isEnded = true
        case .head, .bytes: break
        }
        handler(event)
    }

    /// The session of all streams: redirects are not followed, nothing is stored, and silence is judged elsewhere.
    ///
    /// `@unchecked`: `session` is set once, in `init`, and what changes is `Locked`.
    private final class Session: NSObject, URLSessionDataDelegate, @unchecked Sendable {
        static let shared = Session()
        /// Longest silence in seconds; more than any limit of ours.
        static let longestSilence: TimeInterval = 86_400

        private var session: URLSession!
        private let handlers = Locked<[Int: StreamHandler]>([:])

        private override init() {
            super.init()
            let configuration = URLSessionConfiguration.ephemeral
            configuration.urlCache = nil
            configuration.requestCachePolicy = .reloadIgnoringLocalCacheData
            configuration.httpCookieStorage = nil
            configuration.httpShouldSetCookies = false
            // Apple's default is 6 on macOS and 4 on iOS, which as many open streams would use up.
            configuration.httpMaximumConnectionsPerHost = 10_000
            configuration.timeoutIntervalForRequest = Self.longestSilence
            configuration.timeoutIntervalForResource = 7 * Self.longestSilence
            let queue = OperationQueue()
            queue.maxConcurrentOperationCount = 1
            session = URLSession(configuration: configuration, delegate: self, delegateQueue: queue)
        }

        func task(_ request: URLRequest) -> URLSessionDataTask { session.dataTask(with: request) }

        /// Sets the task's handler; call it before the task is resumed.
        func bind(_ task: URLSessionTask, _ handler: @escaping StreamHandler) {
            handlers.withLock { $0[task.taskIdentifier] = handler }
        }

        private func report(_ event: StreamEvent, of task: URLSessionTask) {
            handlers.withLock { $0[task.taskIdentifier] }?(event)
        }

        func urlSession(
            _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
            newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
        ) {
            // The caller follows redirects, so that no secret goes to another origin.
            completionHandler(nil)
        }

        func urlSession(
            _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
            completionHandler: @escaping @Sendable (URLSession.ResponseDisposition) -> Void
        ) {
            if let answer = response as? HTTPURLResponse {
                let headers = answer.allHeaderFields.map {
                    (String(describing: $0.key).lowercased(), String(describing: $0.value))
                }
                let head = ResponseHead(status: answer.statusCode, headers: Dictionary(headers) { "\($0), \($1)" })
                report(.head(head), of: dataTask)
            }
            completionHandler(.allow)
        }

        func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
            report(.bytes(Array(data)), of: dataTask)
        }

        func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
            let handler = handlers.withLock { $0.removeValue(forKey: task.taskIdentifier) }
            handler?(error.map { .failed($0.localizedDescription) } ?? .end)
        }
    }
}
