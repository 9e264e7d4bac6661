import CLinux
import Foundation
package import StalecastWire

/// Plan of `load fetch`, decided and checked before the first connection.
package struct FetchPlan: Sendable {
    package let target: LoadTarget
    package let scope: Scope
    package let clients: Int
    /// Over what time the clients spread their first fetch; 0 lets all begin at once.
    package let window: Duration
    /// Fetches of each client on its connection, one after the other.
    package let fetchesPerClient: Int
    package let template: FetchTemplate
    /// An API key or token that Edge asks for; nil shows none.
    package let apiKey: String?
    package let threads: Int
    /// Connections being made at once, over all loops.
    package let inFlight: Int
    package let timeout: Duration

    package init(
        target: LoadTarget, scope: Scope, clients: Int, window: Duration, fetchesPerClient: Int,
        template: FetchTemplate, apiKey: String?, threads: Int, inFlight: Int, timeout: Duration
    ) {
        self.target = target
        self.scope = scope
        self.clients = clients
        self.window = window
        self.fetchesPerClient = fetchesPerClient
        self.template = template
        self.apiKey = apiKey
        self.threads = threads
        self.inFlight = inFlight
        self.timeout = timeout
    }

    package var fetches: Int { clients * fetchesPerClient }

    /// Checks that descriptors and ports suffice.
    /// - Throws: ``LoadProblem``.
    package func check() throws(LoadProblem) {
        let sockets = LoadPlan(
            target: target, subscribers: clients, transport: .sse, scope: scope, topic: .pushRC, threads: threads,
            inFlight: inFlight, timeout: timeout)
        try sockets.check()
    }

    /// The fetch of a client with that context: as the JS SDK sends it, but for what it says of itself.
    package func request(context: Int) -> [UInt8] {
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
}
