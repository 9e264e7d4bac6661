import StalecastHTTP
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
        _ method: String, _ path: String, query: RequestQuery = [:], ifMatch: String? = nil,
        headers: [OutboundHeader] = [], body: JSONValue? = nil,
        changes: Bool = false, patience: Duration = patience
    ) async throws(CommandFailure) -> HTTPAnswer {
        var request = try request(method, path, query)
        request.headers += headers
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
        guard answer.status == 200 else {
            throw ServerRefusal(answer, token: token, mayHaveChanged: changes).failure
        }
        return answer
    }

    /// Hands what comes of a long or endless answer to `take`, until that returns false or the answer is complete.
    ///
    /// - Parameter patience: as for `send`. The server sends a comment every 15 s into an endless answer.
    /// - Throws: ``CommandFailure`` when it is refused, ``OutboundFailure`` when the connection breaks.
    func stream(
        _ method: String, _ path: String, _ query: RequestQuery = [:], patience: Duration = .seconds(45),
        _ take: ([UInt8]) throws -> Bool
    ) async throws {
        for try await part in HTTPExchange.start(try request(method, path, query), patience: patience) {
            switch part {
            case .bytes(let bytes): if try !take(bytes) { return }
            case .end(let answer):
                if answer.status == 200 { return }
                throw ServerRefusal(answer, token: token).failure
            }
        }
        throw OutboundFailure(.reset)
    }

    private func request(
        _ method: String, _ path: String, _ query: RequestQuery
    ) throws(CommandFailure) -> OutboundRequest {
        var request = try address.request(path, query)
        request.method = method
        request.headers = [OutboundHeader(trusted: "Authorization", "Bearer \(token.secret)")]
        if !user.isEmpty { request.headers.append(try .given("X-Stalecast-User", user)) }
        return request
    }

    /// Reads a list page by page.
    ///
    /// - Parameters:
    ///   - member: the list in a page.
    ///   - pageSize: the largest that the server gives.
    /// - Returns: at most `limit` items, and whether there are more.
    func list(
        _ member: String, _ path: String, _ query: RequestQuery = [:], limit: Int = .max, pageSize: Int
    ) async throws(CommandFailure) -> (items: [JSONValue], hasMore: Bool) {
        var items: [JSONValue] = []
        var next: String?
        repeat {
            let size = String(min(limit - items.count, pageSize))
            let page = try await send("GET", path, query: query + ["pageSize": size, "pageToken": next]).json()
            let found = page.items(member)
            items += found
            next = found.isEmpty ? nil : page["nextPageToken"]?.string
        } while next != nil && items.count < limit
        return (Array(items.prefix(limit)), next != nil)
    }
}

/// The query of a request, written as a dictionary. A name whose value is nil is left out; a name may stand twice.
struct RequestQuery: Sendable, ExpressibleByDictionaryLiteral {
    private var members: [(name: String, value: String)]

    init(dictionaryLiteral members: (String, String?)...) {
        self.members = members.compactMap { name, value in value.map { (name, $0) } }
    }

    var names: [String] { members.map(\.name) }

    /// Encoded, with its question mark; empty for a query without members.
    var text: String {
        let words = members.map { "\($0.name)=\(PercentEncoding.encode($0.value))" }
        return words.isEmpty ? "" : "?" + words.joined(separator: "&")
    }

    static func + (first: RequestQuery, second: RequestQuery) -> RequestQuery {
        var query = first
        query.members += second.members
        return query
    }
}
