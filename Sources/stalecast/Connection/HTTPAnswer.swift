import Foundation
import StalecastWire

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// A complete HTTP answer.
struct HTTPAnswer: Sendable {
    let head: HTTPHead
    let body: [UInt8]

    /// Longer answers are refused, in bytes: a full template has at most about 8 MB.
    private static let maxBodyBytes = 64 << 20

    /// Sends `request` and reads the whole answer.
    /// - Throws: the transfer's `URLError`, or `CancellationError`.
    static func of(_ request: URLRequest) async throws -> HTTPAnswer {
        var head: HTTPHead?
        var body: [UInt8] = []
        for try await part in HTTPTransfer.start(request) {
            switch part {
            case .head(let received): head = received
            case .bytes(let bytes): body += bytes
            }
            if body.count > maxBodyBytes { throw URLError(.dataLengthExceedsMaximum) }
        }
        try Task.checkCancellation()
        guard let head else { throw URLError(.badServerResponse) }
        return HTTPAnswer(head: head, body: body)
    }

    /// The body as JSON.
    /// - Throws: ``CommandFailure`` when it is none: something else than Stalecast answers there.
    func json() throws(CommandFailure) -> JSONValue {
        do {
            return try JSONValue.parse(body)
        } catch {
            throw CommandFailure(
                .refused, "the answer is not JSON (\(error)); is something else than Stalecast listening there?")
        }
    }
}

extension CommandFailure {
    /// The sentence for a request that got no answer.
    ///
    /// - Parameter mayHaveChanged: the request was a change and may have arrived before the connection broke.
    init(noAnswerFrom address: ServerAddress, _ error: any Error, mayHaveChanged: Bool = false) {
        let code = (error as? URLError)?.code
        let place = "\(address.url) (from \(address.origin))"
        switch code {
        case .cannotConnectToHost, .cannotFindHost, .dnsLookupFailed:
            self.init(
                .unreachable, "nobody answers at \(place)",
                advice: "Is the daemon running? Start it with `stalecast serve`.")
        case _ where mayHaveChanged:
            self.init(
                .outcomeUnknown, "the connection to \(place) broke before the answer: \(error.reason)",
                advice:
                    "The change may have been made. `stalecast versions` (or `stalecast webhooks list`) shows it; look before you "
                    + "repeat it.")
        case .timedOut:
            self.init(.timedOut, "\(place) did not answer in time")
        default:
            self.init(.unreachable, "the connection to \(place) failed: \(error.reason)")
        }
    }
}
