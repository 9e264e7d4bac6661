import Foundation
import StalecastOutbound
import StalecastWire

/// Control's API as the commands use it.
struct ControlClient: Sendable {
    let address: ServerAddress
    let token: ControlToken
    /// Name of the caller; empty when none was given.
    var user = ""

    /// Time without any byte of an answer after which a command gives up; a publish on a slow disk takes a while.
    static let patience: Duration = .seconds(30)

    /// Sends a request and returns the answer of status 200.
    ///
    /// - Parameters:
    ///   - path: begins with `/`; made of names that need no escaping.
    ///   - changes: true when repeating it blindly would matter, which decides how a broken connection is reported.
    ///   - patience: how long to wait without any byte of an answer.
    /// - Throws: ``CommandFailure`` for anything but an answer of status 200.
    func send(
        _ method: String, _ path: String, query: [URLQueryItem] = [], ifMatch: String? = nil,
        headers: [OutboundHeader] = [], body: JSONValue? = nil,
        changes: Bool = false, patience: Duration = patience
    ) async throws(CommandFailure) -> HTTPAnswer {
        var request = try address.request(path, query)
        request.method = method
        request.headers = [OutboundHeader(trusted: "Authorization", "Bearer \(token.secret)")] + headers
        if !user.isEmpty { request.headers.append(try .given("X-Stalecast-User", user)) }
        if let ifMatch { request.headers.append(try .given("If-Match", ifMatch)) }
        if let body {
            request.body = body.encoded()
            request.headers.append(OutboundHeader(trusted: "Content-Type", "application/json; charset=utf-8"))
        }
        let answer: HTTPAnswer
        do {
            answer = try await HTTPAnswer.of(request, patience: patience)
        } catch {
            throw CommandFailure(noAnswerFrom: address, error, mayHaveChanged: changes)
        }
        guard answer.head.status == 200 else { throw ServerRefusal(answer, token: token).failure }
        return answer
    }
}
