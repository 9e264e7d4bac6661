import Foundation
import StalecastOutbound
import StalecastWire

struct HTTPAnswer: Sendable {
    let status: Int
    /// Values of the fields in ``keptFields``, by their names in lower case.
    let fields: [String: String]
    /// The whole of it; of a refusal the beginning.
    var body: [UInt8]

    static let keptFields: Set<String> = ["etag", "x-stalecast-release"]
    /// Longer answers are refused, in bytes: a full template has at most about 8 MB.
    private static let maxBodyBytes = 64 << 20

    /// Sends `request` and reads the whole answer; of a refusal its beginning.
    /// - Throws: ``OutboundFailure``, or `CancellationError`.
    static func of(_ request: OutboundRequest, patience: Duration) async throws -> HTTPAnswer {
        var body: [UInt8] = []
        for try await part in HTTPExchange.start(request, patience: patience) {
            switch part {
            case .bytes(let bytes):
                body += bytes
                if body.count > maxBodyBytes { throw OutboundFailure(.tooLarge) }
            case .end(var answer):
                answer.body = body + answer.body
                return answer
            }
        }
        try Task.checkCancellation()
        throw OutboundFailure(.reset)
    }

    /// The body as JSON.
    /// - Throws: ``CommandFailure`` for a body that is not JSON: another program than Stalecast answers there.
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
        let place = "\(address.url) (from \(address.origin))"
        guard let failure = error as? OutboundFailure else {
            self.init(.refused, "no request can be sent: \(error)")
            return
        }
        switch failure.reason {
        case .dns, .dnsTimeout:
            self.init(
                .unreachable, "the host of \(place) has no address",
                advice:
                    "Is its name spelled right, and does DNS answer here? `getent hosts NAME` asks as this command does."
            )
        case .tls where isMissing(address.caFile):
            self.init(
                .unreachable, "no TLS connection to \(place): \(failure.detail)",
                advice: "Name a PEM file with --ca-file FILE, or correct $STALECAST_CA_FILE, $CURL_CA_BUNDLE or "
                    + "$SSL_CERT_FILE.")
        case .refused, .unreachable, .connectTimeout:
            self.init(
                .unreachable, "no server answers at \(place)",
                advice: "Is the daemon running? Start it with `stalecast serve`.")
        case .tlsVerify:
            self.init(
                .unreachable, "\(place) cannot be trusted: \(failure.words)",
                advice: "A private authority's certificate is named with --ca-file FILE.")
        case .tls, .tlsTimeout:
            self.init(
                .unreachable, "no TLS connection to \(place): \(failure.words)",
                advice: "Does that port speak TLS? `stalecast tls check HOST:PORT` says so; if not, write http://.")
        // Failures above come before the request is sent; from here on it may have been carried out.
        case _ where mayHaveChanged:
            self.init(
                .outcomeUnknown, "the connection to \(place) broke before the answer: \(failure.words)",
                advice: ServerRefusal.lookFirst)
        case .responseTimeout: self.init(.timedOut, "\(place) did not answer in time")
        default: self.init(.unreachable, "the connection to \(place) failed: \(failure.words)")
        }
    }
}

private func isMissing(_ file: String?) -> Bool { file.map { access($0, R_OK) != 0 } ?? false }

extension OutboundFailure {
    /// Outcome, for the brackets of a sentence.
    var words: String {
        switch reason {
        case .refused: "connection refused"
        case .unreachable, .connectTimeout: "the host cannot be reached"
        case .dns, .dnsTimeout: "the host has no address"
        case .reset: "the connection broke"
        case .responseTimeout: "nothing was heard for too long"
        case .tooLarge: "the answer is too long"
        case .badAnswer: "the answer is not HTTP"
        case .tlsVerify: "its certificate is signed by no authority known here, or is for another name"
        case .tls, .tlsTimeout: detail.isEmpty ? "TLS failed" : "TLS failed, \(detail)"
        case .blocked, .cancelled, .other: detail.isEmpty ? "the request ended" : detail
        }
    }
}
