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
        var validators = HTTPValidators.none
        /// SHA-256 of the last body; nil before the first, and after ``HTTPSource/forget()``.
        var digest: [UInt8]?
        /// What was wrong with that body.
        var problem: OriginProblem?
    }

    /// - Parameter access: its `maxBodyBytes` bounds the document.
    package init(url: OutboundURL, access: OriginAccess, reading: ContentReading, kind: TemplateKind) {
        self.url = url
        self.access = access
        self.reading = reading
        templateKind = kind
    }

    /// One GET. Not to be called again before it returned. A document that cannot be used is reported by every look,
    /// until the origin has another one.
    package func look() async -> OriginLook {
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

    private func take(_ answer: OriginAnswer, wasConditional: Bool) throws(OriginProblem) -> OriginLook {
        switch answer.status {
        case 200: return try take(document: answer)
        case 304 where wasConditional: return try repeatLast()
        default:
            throw OriginProblem(.unexpectedStatus, "\(url.host) answers \(answer.status) to a GET; 200 is expected")
        }
    }

    private func take(document answer: OriginAnswer) throws(OriginProblem) -> OriginLook {
        let validators = HTTPValidators(headers: answer.headers)
        let digest = Array(SHA256.hash(data: answer.body))
        if state.withLock({ $0.digest == digest }) {
            state.withLock { $0.validators = validators }
            return try repeatLast()
        }
        do {
            let content = try reading.read(answer.body, contentType: answer.headers["content-type"], kind: templateKind)
            state.withLock { $0 = State(validators: validators, digest: digest) }
            return .seen(OriginSight(content: content, etag: answer.headers["etag"]))
        } catch {
            state.withLock { $0 = State(validators: validators, digest: digest, problem: error) }
            throw error
        }
    }

    private func repeatLast() throws(OriginProblem) -> OriginLook {
        if let problem = state.withLock(\.problem) { throw problem }
        return .unchanged
    }
}
