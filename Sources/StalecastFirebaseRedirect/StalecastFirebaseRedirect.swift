public import Foundation

#if canImport(FoundationNetworking)
    public import FoundationNetworking
#endif

/// Sends what Firebase's Remote Config asks of Google's hosts to a Stalecast's Edge instead: fetches, installations,
/// and the real-time stream. The SDK has its hosts as constants, so that only the app's own HTTP layer can do this.
///
/// ```swift
/// StalecastFirebaseRedirect.install(edge: URL(string: "https://edge.example.org")!)
/// FirebaseApp.configure()
/// ```
public final class StalecastFirebaseRedirect: URLProtocol {
    static let hosts: Set<String> = [
        "firebaseremoteconfig.googleapis.com", "firebaseremoteconfigrealtime.googleapis.com",
        "firebaseinstallations.googleapis.com",
    ]
    private static let queue = DispatchQueue(label: "stalecast.redirect")
    private static let lock = NSLock()
    nonisolated(unsafe) private static var edge: URLComponents?  // under the lock

    private var session: URLSession?
    private let stopping = NSLock()
    private var isStopped = false  // under `stopping`
    #if canImport(ObjectiveC)
        private var runLoop: CFRunLoop?
    #endif

    /// Redirects the requests of every session that is made from now on. Call it before `FirebaseApp.configure()`; a
    /// second call changes the address.
    ///
    /// - Parameter edge: scheme, host and port of Edge, perhaps with a path.
    public static func install(edge: URL) {
        lock.withLock { self.edge = URLComponents(url: edge, resolvingAgainstBaseURL: true) }
        URLSessionConfiguration.redirectNewOnes
        _ = URLProtocol.registerClass(Self.self)
    }

    /// Adds the redirect to a configuration that ``install(edge:)`` cannot reach: outside Apple's platforms every one.
    public static func add(to configuration: URLSessionConfiguration) {
        let others = (configuration.protocolClasses ?? []).filter { $0 != Self.self }
        configuration.protocolClasses = [Self.self] + others
    }

    /// Place at Edge in a URL's stead; nil for other hosts, and before ``install(edge:)``.
    package static func redirected(_ url: URL?) -> URL? {
        guard let url, let host = url.host, hosts.contains(host), let edge = lock.withLock({ edge }),
            var parts = URLComponents(url: url, resolvingAgainstBaseURL: true)
        else { return nil }
        (parts.scheme, parts.host, parts.port) = (edge.scheme, edge.host, edge.port)
        let base = edge.percentEncodedPath
        parts.percentEncodedPath = (base.hasSuffix("/") ? String(base.dropLast()) : base) + parts.percentEncodedPath
        return parts.url
    }

    public override class func canInit(with request: URLRequest) -> Bool { redirected(request.url) != nil }

    public override class func canonicalRequest(for request: URLRequest) -> URLRequest { request }

    public override func startLoading() {
        var request = self.request
        request.url = Self.redirected(request.url)
        // Apple's URLProtocol gets a body as a stream, which would be sent in chunks. The SDK's bodies are small.
        if request.httpBody == nil, let stream = request.httpBodyStream { request.httpBody = stream.rest() }
        #if canImport(ObjectiveC)
            runLoop = CFRunLoopGetCurrent()
        #endif
        onQueue { [request] one in
            let configuration = URLSessionConfiguration.ephemeral
            configuration.protocolClasses = (configuration.protocolClasses ?? []).filter { $0 != Self.self }
            configuration.timeoutIntervalForRequest = request.timeoutInterval
            let session = URLSession(configuration: configuration, delegate: Relay(one), delegateQueue: nil)
            one.session = session
            session.dataTask(with: request).resume()
        }
    }

    public override func stopLoading() {
        stopping.withLock { isStopped = true }
        onQueue { $0.session?.invalidateAndCancel() }
    }

    /// All of Foundation's sessions on Linux share a queue, on which a protocol is called: waiting for another session
    /// there would never end.
    private func onQueue(_ act: @escaping @Sendable (StalecastFirebaseRedirect) -> Void) {
        nonisolated(unsafe) let one = self  // its session is reached on this queue only
        Self.queue.async { act(one) }
    }

    /// Apple's loader wants to be called where it called ``startLoading()``.
    private func pass(_ act: @escaping (StalecastFirebaseRedirect) -> Void) {
        #if canImport(ObjectiveC)
            guard let runLoop else { return }
            CFRunLoopPerformBlock(runLoop, CFRunLoopMode.defaultMode.rawValue) { self.tell(act) }
            CFRunLoopWakeUp(runLoop)
        #else
            tell(act)
        #endif
    }

    /// A loader that cancelled the task has forgotten it: Foundation on Linux ends the process when it hears of it.
    private func tell(_ act: (StalecastFirebaseRedirect) -> Void) {
        if stopping.withLock({ !isStopped }) { act(self) }
    }

    /// Passes on what comes from Edge, at once: a stream's messages must not wait for its end.
    private final class Relay: NSObject, URLSessionDataDelegate {
        // The session calls on one queue, and its owner's loader takes calls there or where `pass` brings them.
        nonisolated(unsafe) private let owner: StalecastFirebaseRedirect

        init(_ owner: StalecastFirebaseRedirect) { self.owner = owner }

        func urlSession(
            _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
            completionHandler: @escaping (URLSession.ResponseDisposition) -> Void
        ) {
            owner.pass { $0.client?.urlProtocol($0, didReceive: response, cacheStoragePolicy: .notAllowed) }
            completionHandler(.allow)
        }

        func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
            owner.pass { $0.client?.urlProtocol($0, didLoad: data) }
        }

        func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
            owner.pass { owner in
                guard let error else { return owner.client?.urlProtocolDidFinishLoading(owner) ?? () }
                owner.client?.urlProtocol(owner, didFailWithError: error)
            }
            session.finishTasksAndInvalidate()
        }
    }
}
