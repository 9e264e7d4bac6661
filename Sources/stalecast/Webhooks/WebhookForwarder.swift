import StalecastOutbound

/// Passes requests of webhooks on to an app.
struct WebhookForwarder: Sendable {
    private let url: OutboundURL

    /// Header fields that belong to a connection and not to the request that comes over it.
    private static let hopByHop: Set<String> = [
        "host", "connection", "keep-alive", "content-length", "transfer-encoding", "te", "upgrade", "expect",
        "accept-encoding",
    ]
    private static let patience: Duration = .seconds(15)

    init(_ text: String) throws(CommandFailure) {
        do { url = try OutboundURL(text) } catch {
            throw CommandFailure(
                .usage, "--forward-to is the URL of your app, for example http://127.0.0.1:3000/hook: \(error)")
        }
    }

    /// Answer of the app, or 502 where it does not answer, so that the daemon tries again; and a remark about it.
    func answer(to request: ReceivedRequest) async -> (answer: [UInt8], remark: String) {
        if let consent = request.consent { return (consent, "  granted") }
        do {
            let answer = try await HTTPAnswer.of(forwarded(request), patience: Self.patience)
            let type = answer.head["content-type"].map { "Content-Type: \($0)\r\n" } ?? ""
            return (
                ReceivedRequest.answer(answer.head.status, type, answer.body),
                "  the app answered \(answer.head.status)"
            )
        } catch {
            let reason = (error as? OutboundFailure)?.words ?? "the request ended"
            return (ReceivedRequest.answer(502), "  the app did not answer, so this answered 502: \(reason)")
        }
    }

    private func forwarded(_ request: ReceivedRequest) -> OutboundRequest {
        let headers = request.headers.sorted { $0.key < $1.key }.compactMap { name, value in
            // One that cannot be written again is left out.
            Self.hopByHop.contains(name) ? nil : try? OutboundHeader(name, value)
        }
        return OutboundRequest(
            method: request.method, url: url, headers: headers, body: request.body, policy: ServerAddress.anywhere)
    }
}
