import CEpoll
import Foundation
import StalecastWire

/// What `load fetch` does, decided and checked before the first connection.
struct FetchPlan: Sendable {
    let target: LoadTarget
    let scope: Scope
    let clients: Int
    /// Over what time the clients spread their first fetch; 0 lets all begin at once.
    let window: Duration
    /// Fetches of each client on its connection, one after the other.
    let fetchesPerClient: Int
    let template: FetchTemplate
    /// One of the daemon's API keys; nil when it asks for none.
    let apiKey: String?
    let threads: Int
    /// Connections being made at once, over all loops.
    let inFlight: Int
    let timeout: Duration

    var fetches: Int { clients * fetchesPerClient }

    /// Checks that descriptors and ports suffice.
    /// - Throws: ``CommandFailure``.
    func check() throws(CommandFailure) {
        let sockets = LoadPlan(
            target: target, subscribers: clients, transport: .sse, topic: .pushRC, threads: threads,
            inFlight: inFlight, timeout: timeout)
        try sockets.check()
    }

    /// The fetch of a client with that context: as the JS SDK sends it, but for what it says of itself.
    func request(context: Int) -> [UInt8] {
        let body = template.requestBody(context: context)
        let key = apiKey.map { ["X-Goog-Api-Key: \($0)"] } ?? []
        let head =
            [
                "POST \(target.basePath)/v1/projects/\(scope.project)/namespaces/\(scope.namespace):fetch HTTP/1.1",
                "Host: \(target.authority)", "Content-Type: application/json", "Accept: application/json",
                "If-None-Match: *",
            ] + key + ["Content-Length: \(body.count)", "", ""]
        return Array(head.joined(separator: "\r\n").utf8) + body
    }

    /// A first request, so that the connection is one that has been used and is kept open.
    var greeting: [UInt8] {
        Array("GET \(target.basePath)/healthz HTTP/1.1\r\nHost: \(target.authority)\r\n\r\n".utf8)
    }

    /// The clients of each loop.
    var shares: [Range<Int>] {
        (0..<threads).map { $0 * clients / threads..<($0 + 1) * clients / threads }
    }
}
