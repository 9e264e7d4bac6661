package import StalecastOutbound
import StalecastTemplate
package import StalecastWire
import Synchronization

/// A scope of Firebase Remote Config, or of anything that speaks its REST API, another Stalecast's Control included.
/// Polls the list of versions, which is short, and reads the template only when there is a new one.
package final class FirebaseSource: TemplateSource {
    package var kind: SourceKind { .firebase }
    package var place: String { template.withoutQuery }

    private let access: OriginAccess
    private let list: OutboundURL
    private let template: OutboundURL
    private let templateKind: TemplateKind
    private let stream: (settings: InvalidationStream.Settings, access: OriginAccess)?
    private let state = Mutex(State())
    private let open = Mutex<InvalidationStream?>(nil)

    private struct State {
        /// The version that was read last; 0 before the first, and after ``FirebaseSource/forget()``.
        var version: VersionNumber = 0
        /// What was wrong with that version.
        var problem: OriginProblem?
    }

    /// Google's host.
    package static let defaultBase = "https://firebaseremoteconfig.googleapis.com"
    /// What a service account's token is asked for.
    package static let oauthScope = "https://www.googleapis.com/auth/firebase.remoteconfig"
    /// A version that is listed and cannot be read yet is looked for again after this.
    private static let replicaDelay = Duration.milliseconds(250)

    /// - Parameters:
    ///   - base: scheme, host and port, perhaps a path; without a final slash.
    ///   - project: the origin's id or number.
    ///   - namespace: the origin's; `firebase` is asked for by the paths that are documented.
    ///   - stream: how to listen to the origin's real-time stream, and how it is reached; nil only looks.
    /// - Throws: ``OutboundURL/Invalid`` for a base that is no URL.
    package init(
        base: String, project: String, namespace: Namespace, access: OriginAccess,
        stream: (settings: InvalidationStream.Settings, access: OriginAccess)? = nil
    ) throws(OutboundURL.Invalid) {
        let scope = namespace == .firebase ? "" : "/namespaces/\(namespace)"
        let prefix = "\(base)/v1/projects/\(project)\(scope)/remoteConfig"
        list = try OutboundURL("\(prefix):listVersions?pageSize=1")
        template = try OutboundURL(prefix)
        templateKind = TemplateKind(namespace: namespace)
        self.access = access
        self.stream = stream
    }

    package var listening: SourceStatus.Listening? {
        guard stream != nil else { return nil }
        return open.withLock { SourceStatus.Listening(isOpen: $0?.isOpen ?? false, problem: $0?.problem) }
    }

    package func listen(onChange: @escaping @Sendable (VersionNumber?) -> Void) async {
        guard let stream else { return }
        let listener = InvalidationStream(
            stream.settings, access: stream.access, known: { self.state.withLock(\.version) }, onVersion: onChange)
        open.withLock { $0 = listener }
        await listener.run()
        open.withLock { $0 = nil }
    }

    /// One or two requests, seldom three. Not to be called again before it returned. A version that cannot be used is
    /// reported by every look, until the origin has another one.
    package func look() async -> OriginLook {
        do throws(OriginProblem) {
            let newest = try await newestListed()
            guard newest > 0, newest != state.withLock({ $0.version }) else { return try repeatLast() }
            return .seen(try await read(newest))
        } catch {
            return .failed(error)
        }
    }

    /// Makes the next look read the template again: the last one could not be adopted.
    package func forget() { state.withLock { $0 = State() } }

    private func repeatLast() throws(OriginProblem) -> OriginLook {
        if let problem = state.withLock(\.problem) { throw problem }
        return .unchanged
    }

    /// 0 for a project without versions.
    private func newestListed() async throws(OriginProblem) -> VersionNumber {
        let json = try Self.json(try await access.answer("GET", list))
        guard let object = json.object else { throw Self.invalid("the list of versions is \(json.kind)") }
        guard let entries = object["versions"]?.array, let first = entries.first else { return 0 }
        guard let metadata = try VersionMetadata.firebase(first, seenAt: .now()) else {
            throw Self.invalid("the list of versions has an entry without versionNumber")
        }
        return metadata.number
    }

    /// The active template, or if that is older than listed (another replica answered), that very version.
    private func read(_ newest: VersionNumber) async throws(OriginProblem) -> OriginLook.Sight {
        let active = try await sight(template)
        if let number = active.metadata?.number, number >= newest { return try keep(active) }
        guard let url = try? OutboundURL("\(template.text)?versionNumber=\(newest)") else {
            throw Self.invalid("version \(newest) has no URL")
        }
        do throws(OriginProblem) {
            return try keep(try await sight(url))
        } catch  where error.reason == .notFound {
            throw OriginProblem(
                .notFound, "version \(newest) is listed and cannot be read yet", retryAfter: Self.replicaDelay,
                isSoonOver: true)
        }
    }

    private struct Document {
        let json: JSONValue
        let metadata: VersionMetadata?
        let etag: String?
    }

    private func sight(_ url: OutboundURL) async throws(OriginProblem) -> Document {
        let answer = try await access.answer("GET", url)
        let json = try Self.json(answer)
        return Document(
            json: json, metadata: try VersionMetadata.firebase(json["version"], seenAt: .now()),
            etag: answer.headers["etag"])
    }

    private func keep(_ document: Document) throws(OriginProblem) -> OriginLook.Sight {
        guard let metadata = document.metadata else { throw Self.invalid("the template has no version") }
        do {
            let template = try Template(validating: document.json, kind: templateKind)
            state.withLock { $0 = State(version: metadata.number) }
            return OriginLook.Sight(
                content: OriginContent(template: template, version: metadata.number), metadata: metadata,
                etag: document.etag)
        } catch {
            let problem = Self.invalid("version \(metadata.number) is not valid here: \(error.message)")
            state.withLock { $0 = State(version: metadata.number, problem: problem) }
            throw problem
        }
    }

    private static func json(_ answer: OriginAccess.Answer) throws(OriginProblem) -> JSONValue {
        guard answer.status == 200 else {
            throw OriginProblem(.unexpectedStatus, "the origin answers \(answer.status); 200 is expected")
        }
        do { return try JSONValue.parse(answer.body) } catch {
            throw invalid("the origin's answer is not JSON: \(error.description)")
        }
    }

    private static func invalid(_ sentence: String) -> OriginProblem { OriginProblem(.invalidContent, sentence) }
}
