package import StalecastOutbound
import StalecastTemplate
package import StalecastWire
import Synchronization

/// A scope of Firebase Remote Config, or of anything that speaks its REST API, another Stalecast's Control included.
/// Polls the list of versions, which is short, and reads the template only when there is a new one.
package final class FirebaseSource: TemplateSource {
    package var kind: SourceKind { .firebase }
    package var place: String { templates.place }

    private let templates: FirebaseTemplates
    private let templateKind: TemplateKind
    private let limits: TemplateLimits
    private let stream: (settings: InvalidationStream.Settings, access: OriginAccess)?
    private let state = Mutex(State())
    private let open = Mutex<InvalidationStream?>(nil)

    private struct State {
        /// The version that was read last; 0 before the first, and after ``FirebaseSource/forget()``.
        var version: VersionNumber = 0
        /// Problem of that version.
        var problem: OriginProblem?
    }

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
        stream: (settings: InvalidationStream.Settings, access: OriginAccess)? = nil, checksSchemas: Bool = true
    ) throws(OutboundURL.Invalid) {
        templates = try FirebaseTemplates(base: base, project: project, namespace: namespace, access: access)
        templateKind = TemplateKind(namespace: namespace)
        limits = checksSchemas ? .firebase : .withoutSchemas
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
    package func poll() async -> OriginPoll {
        do throws(OriginProblem) {
            let newest = try await templates.newest()
            guard newest > 0, newest != state.withLock({ $0.version }) else { return try repeatLast() }
            return .seen(try await read(newest))
        } catch {
            return .failed(error)
        }
    }

    /// Makes the next look read the template again: the last one could not be adopted.
    package func forget() { state.withLock { $0 = State() } }

    private func repeatLast() throws(OriginProblem) -> OriginPoll {
        if let problem = state.withLock(\.problem) { throw problem }
        return .unchanged
    }

    /// The active template, or if that is older than listed (another replica answered), that very version.
    private func read(_ newest: VersionNumber) async throws(OriginProblem) -> OriginPoll.Sight {
        let active = try await templates.document()
        if let number = active.metadata?.number, number >= newest { return try keep(active) }
        do throws(OriginProblem) {
            return try keep(try await templates.document(newest))
        } catch  where error.reason == .notFound {
            throw OriginProblem(
                .notFound, "version \(newest) is listed and cannot be read yet", retryAfter: Self.replicaDelay,
                isSoonOver: true)
        }
    }

    private func keep(_ document: FirebaseTemplates.Document) throws(OriginProblem) -> OriginPoll.Sight {
        guard let metadata = document.metadata else { throw FirebaseTemplates.invalid("the template has no version") }
        do {
            let template = try Template(validating: document.json, kind: templateKind, limits: limits)
            state.withLock { $0 = State(version: metadata.number) }
            return OriginPoll.Sight(
                content: OriginContent(template: template, version: metadata.number), metadata: metadata,
                etag: document.etag)
        } catch {
            let problem = FirebaseTemplates.invalid("version \(metadata.number) is not valid here: \(error.message)")
            // Notes the version with its problem: later looks repeat that without reading the same template again.
            state.withLock { $0 = State(version: metadata.number, problem: problem) }
            throw problem
        }
    }
}
