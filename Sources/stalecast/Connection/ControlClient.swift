import Foundation
import StalecastWire

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Control's API as the commands use it.
struct ControlClient: Sendable {
    let address: ServerAddress
    let token: ControlToken

    /// Seconds without any byte of an answer before giving up; a publish on a slow disk takes a while.
    static let idleLimitSeconds = 30.0

    /// Sends a request and returns the answer of status 200.
    ///
    /// - Parameters:
    ///   - path: begins with `/`; made of names that need no escaping.
    ///   - changes: true when repeating it blindly would matter, which decides how a broken connection is reported.
    ///   - patience: seconds without any byte of an answer before giving up.
    /// - Throws: ``CommandFailure`` for anything but an answer of status 200.
    func send(
        _ method: String, _ path: String, query: [URLQueryItem] = [], ifMatch: String? = nil,
        headers: [String: String] = [:], body: JSONValue? = nil,
        changes: Bool = false, patience: Double = idleLimitSeconds
    ) async throws(CommandFailure) -> HTTPAnswer {
        var request = try request(path, query)
        request.httpMethod = method
        request.timeoutInterval = patience
        request.setValue("Bearer \(token.secret)", forHTTPHeaderField: "Authorization")
        for (name, value) in headers { request.setValue(value, forHTTPHeaderField: name) }
        if let ifMatch { request.setValue(ifMatch, forHTTPHeaderField: "If-Match") }
        if let body {
            request.httpBody = Data(body.encoded())
            request.setValue("application/json; charset=utf-8", forHTTPHeaderField: "Content-Type")
        }
        let answer: HTTPAnswer
        do {
            answer = try await HTTPAnswer.of(request)
        } catch {
            throw CommandFailure(noAnswerFrom: address, error, mayHaveChanged: changes)
        }
        guard answer.head.status == 200 else { throw ServerRefusal(answer, token: token).failure }
        return answer
    }

    private func request(_ path: String, _ query: [URLQueryItem]) throws(CommandFailure) -> URLRequest {
        guard var parts = URLComponents(string: address.url + path) else {
            throw CommandFailure(.usage, "\(address.url)\(path) is not a URL")
        }
        if !query.isEmpty { parts.queryItems = query }
        guard let url = parts.url else { throw CommandFailure(.usage, "\(address.url)\(path) is not a URL") }
        return URLRequest(url: url)
    }
}
