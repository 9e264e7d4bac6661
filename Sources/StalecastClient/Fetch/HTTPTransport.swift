public import Foundation

/// One HTTP request as the SDK sends it.
public struct TransportRequest: Sendable {
    /// `GET`, `POST` …
    public var method: String
    /// URL of the request.
    public var url: URL
    /// Names and values.
    public var headers: [String: String]
    /// nil sends no body.
    public var body: Data?
    /// The longest the whole exchange may take, in seconds.
    public var timeout: TimeInterval
    /// See ``StalecastOptions/authorityFile``. Default nil.
    public var authorityFile: String?

    /// All parts as given.
    public init(
        method: String = "POST", url: URL, headers: [String: String] = [:], body: Data? = nil,
        timeout: TimeInterval = 60
    ) {
        (self.method, self.url, self.headers, self.body, self.timeout) = (method, url, headers, body, timeout)
    }
}

/// A complete HTTP answer of any status.
public struct TransportResponse: Sendable {
    /// The HTTP status.
    public var status: Int
    /// Names in lower case; of a repeated header any one.
    public var headers: [String: String]
    /// All of it, decoded.
    public var body: Data

    /// All parts as given.
    public init(status: Int, headers: [String: String] = [:], body: Data = Data()) {
        self.status = status
        self.headers = Dictionary(headers.map { ($0.key.lowercased(), $0.value) }) { first, _ in first }
        self.body = body
    }
}

/// Transport of the SDK's requests other than streams. ``NetworkTransport`` goes over the network,
/// ``LocalConfigServer`` answers in the process.
public protocol HTTPTransport: Sendable {
    /// Sends a request and returns the complete answer, whatever its status.
    ///
    /// - Throws: when there is no answer: no connection, timeout, cancellation.
    func send(_ request: TransportRequest) async throws -> TransportResponse
}
