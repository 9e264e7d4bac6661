import Crypto
package import StalecastOutbound
package import StalecastTemplate
import StalecastWire
import Synchronization

/// A template behind a URL: any server that answers a GET, conditional where the server supports it.
package final class HTTPSource: TemplateSource {
    package var kind: SourceKind { .http }
    package var place: String { url.withoutQuery }

    private let access: OriginAccess
    private let url: OutboundURL
    private let reading: ContentReading
    private let templateKind: TemplateKind
    private let state = Mutex(State())

    private struct State {
        var validators = Validators.none
        /// SHA-256 of the last body; nil before the first, and after ``HTTPSource/forget()``.
        var digest: [UInt8]?
        /// Problem of that body.
        var problem: OriginProblem?
    }

    /// - Parameter access: its `maxBodyBytes` bounds the document.
    package init(url: OutboundURL, access: OriginAccess, reading: ContentReading, kind: TemplateKind) {
        (self.url, self.access, self.reading) = (url, access, reading)
        templateKind = kind
    }

    /// One GET. Not to be called again before it returned. A document that cannot be used is reported by every look,
    /// until the origin has another one.
    package func poll() async -> OriginPoll {
        let validators = state.withLock(\.validators)
        do {
            let answer = try await access.answer("GET", url, headers: validators.headers)
            return try take(answer, wasConditional: !validators.isEmpty)
        } catch {
            return .failed(error)
        }
    }

    /// Makes the next look unconditional, and its document count as new: the last one could not be adopted.
    package func forget() { state.withLock { $0 = State() } }

    private func take(_ answer: OriginAccess.Answer, wasConditional: Bool) throws(OriginProblem) -> OriginPoll {
        switch answer.status {
        case 200: return try take(document: answer)
        case 304 where wasConditional: return try repeatLast()
        default:
            throw OriginProblem(.unexpectedStatus, "\(url.host) answers \(answer.status) to a GET; 200 is expected")
        }
    }

    private func take(document answer: OriginAccess.Answer) throws(OriginProblem) -> OriginPoll {
        let validators = Validators(headers: answer.headers)
        let digest = Array(SHA256.hash(data: answer.body))
        // An origin that ignores validators, or renews them, answers with the whole document each time.
        if state.withLock({ $0.digest == digest }) {
            state.withLock { $0.validators = validators }
            return try repeatLast()
        }
        do {
            let content = try reading.read(answer.body, contentType: answer.headers["content-type"], kind: templateKind)
            state.withLock { $0 = State(validators: validators, digest: digest) }
            return .seen(OriginPoll.Sight(content: content, etag: answer.headers["etag"]))
        } catch {
            state.withLock { $0 = State(validators: validators, digest: digest, problem: error) }
            throw error
        }
    }

    private func repeatLast() throws(OriginProblem) -> OriginPoll {
        if let problem = state.withLock(\.problem) { throw problem }
        return .unchanged
    }

    /// Validators that an origin gave its document, to be shown again in a conditional GET.
    struct Validators: Sendable, Hashable {
        private var etag: String?
        private var lastModified: String?

        /// Nothing is known: the next GET is unconditional.
        static let none = Validators()

        /// Longer ETags are not sent back.
        private static let maxBytes = 1024

        private init() {}

        /// - Parameter headers: an answer's, by lower-case name.
        ///  Times count in seconds, and nginx makes its ETags of them: what was changed within the second before it was
        /// read may change again and look the same. Such validators are not kept, so the next GET is unconditional.
        init(headers: [String: String]) {
            if Self.changedJustNow(headers) { return }
            etag = headers["etag"].flatMap { $0.utf8.count <= Self.maxBytes && !$0.isEmpty ? $0 : nil }
            lastModified = headers["last-modified"].flatMap { HTTPDate.timestamp($0) == nil ? nil : $0 }
        }

        private static func changedJustNow(_ headers: [String: String]) -> Bool {
            guard let changed = headers["last-modified"].flatMap(HTTPDate.timestamp),
                let answered = headers["date"].flatMap(HTTPDate.timestamp)
            else { return false }
            return answered.microseconds - changed.microseconds < 2_000_000
        }

        var isEmpty: Bool { etag == nil && lastModified == nil }

        /// `If-None-Match`, and `If-Modified-Since` for servers that know nothing else.
        var headers: [OutboundHeader] {
            var headers: [OutboundHeader] = []
            if let etag, let header = try? OutboundHeader("If-None-Match", etag) {  // an odd ETag is not sent back
                headers.append(header)
            }
            if let lastModified { headers.append(OutboundHeader(trusted: "If-Modified-Since", lastModified)) }
            return headers
        }
    }
}
