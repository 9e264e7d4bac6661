import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The first part of an HTTP answer.
struct HTTPHead: Sendable {
    let status: Int
    private let fields: [String: String]

    init(status: Int, fields: [String: String]) {
        self.status = status
        self.fields = Dictionary(fields.map { ($0.key.lowercased(), $0.value) }) { first, _ in first }
    }

    /// A header field's value by its name in any case; nil when absent.
    subscript(field: String) -> String? { fields[field.lowercased()] }
}

/// One HTTP exchange whose answer arrives in parts, as the network delivers them. Redirects are not followed: they
/// would carry the token to somewhere nobody named.
final class HTTPTransfer: NSObject, URLSessionDataDelegate, Sendable {
    enum Part: Sendable {
        case head(HTTPHead)
        case bytes([UInt8])
    }

    /// Parts waiting for a slow reader, at most; then the stream ends and a watcher resumes without loss.
    private static let maxWaitingParts = 4096

    private let parts: AsyncThrowingStream<Part, any Error>.Continuation

    private init(_ parts: AsyncThrowingStream<Part, any Error>.Continuation) { self.parts = parts }

    /// Starts `request`; it ends when the reader stops reading or is cancelled.
    static func start(_ request: URLRequest) -> AsyncThrowingStream<Part, any Error> {
        AsyncThrowingStream(bufferingPolicy: .bufferingOldest(maxWaitingParts)) { parts in
            let configuration = URLSessionConfiguration.ephemeral
            configuration.urlCache = nil
            configuration.httpCookieStorage = nil
            configuration.requestCachePolicy = .reloadIgnoringLocalCacheData
            let transfer = HTTPTransfer(parts)
            let session = URLSession(configuration: configuration, delegate: transfer, delegateQueue: nil)
            let task = session.dataTask(with: request)
            parts.onTermination = { _ in
                task.cancel()
                session.finishTasksAndInvalidate()
            }
            task.resume()
        }
    }

    func urlSession(
        _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
        completionHandler: @escaping (URLSession.ResponseDisposition) -> Void
    ) {
        if let response = response as? HTTPURLResponse {
            var fields: [String: String] = [:]
            for (name, value) in response.allHeaderFields { fields["\(name)"] = "\(value)" }
            deliver(.head(HTTPHead(status: response.statusCode, fields: fields)))
        }
        completionHandler(.allow)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        deliver(.bytes(Array(data)))
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        parts.finish(throwing: error)
    }

    func urlSession(
        _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest, completionHandler: @escaping (URLRequest?) -> Void
    ) {
        completionHandler(nil)
    }

    private func deliver(_ part: Part) {
        if case .dropped = parts.yield(part) { parts.finish(throwing: URLError(.dataLengthExceedsMaximum)) }
    }
}
