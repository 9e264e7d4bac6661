package import StalecastOutbound
package import StalecastSources
import StalecastTemplate
import StalecastWire

/// Makes sources and fences of what the configuration says about them.
package struct SourceFactory: Sendable {
    /// A scope's source with its fence.
    package struct Made: Sendable {
        package let feed: Configuration.Feed
        package let source: any TemplateSource
        package let fence: Fence?
        package let schedule: PollSchedule
    }

    /// nil while no source needs it.
    package let engine: OutboundEngine?
    private let policy: AddressPolicy
    private let watch: FileWatch?

    /// Starts a thread when a source is asked over HTTP.
    ///
    /// - Parameter share: nil in a process that does nothing else.
    /// - Throws: ``StartError``.
    package init(
        _ configuration: Configuration, _ share: DescriptorBudget.Outbound? = nil
    ) throws(StartError) {
        let feeds = configuration.sources.scopes
        policy = AddressPolicy(
            profile: configuration.sources.addressProfile, allow: configuration.sources.allowedAddresses)
        watch = feeds.contains { $0.kind == .file } ? FileWatch() : nil
        guard feeds.contains(where: { $0.needsEngine }) else {
            engine = nil
            return
        }
        do {
            engine = try OutboundEngine(
                OutboundConfiguration(
                    maxInFlight: share?.requests ?? 256, maxLookups: share?.lookups ?? 64,
                    keptConnections: share?.kept ?? 32, shelves: 1, threadName: "sources"))
        } catch {
            throw StartError("sources: \(error)")
        }
    }

    /// - Throws: ``StartError`` that names the scope and what is wrong with its entry.
    package func make(_ feed: Configuration.Feed) throws(StartError) -> Made {
        do {
            return Made(
                feed: feed, source: try source(feed), fence: try fence(feed),
                schedule: PollSchedule(
                    interval: feed.effectiveInterval, longestTrust: feed.maxAge > .zero ? feed.maxAge / 2 : nil))
        } catch {
            throw StartError("source of \(feed.scope): \(error)")
        }
    }

    private func source(_ feed: Configuration.Feed) throws -> any TemplateSource {
        let kind = TemplateKind(namespace: feed.scope.namespace)
        switch feed.kind {
        case .store: throw StartError("kind store is no source")
        case .file:
            return FileSource(
                path: feed.path ?? "", reading: feed.reading, kind: kind, watch: watch,
                maxBytes: feed.maxBytes)
        case .http:
            return HTTPSource(
                url: try OutboundURL(feed.url ?? ""), access: try access(feed), reading: feed.reading, kind: kind)
        case .firebase: return try firebase(feed)
        }
    }

    private func firebase(_ feed: Configuration.Feed) throws -> FirebaseSource {
        let project = feed.firebase.project ?? feed.scope.project.description
        let namespace = feed.firebase.namespace ?? feed.scope.namespace
        return try FirebaseSource(
            base: feed.url ?? FirebaseTemplates.defaultBase, project: project, namespace: namespace,
            access: try access(feed), stream: try stream(feed, project, namespace),
            checksSchemas: feed.serve != .notify)
    }

    /// Opens the real-time stream. Only the origin's REST API gets credentials.
    private func stream(
        _ feed: Configuration.Feed, _ project: String, _ namespace: Namespace
    ) throws -> (settings: InvalidationStream.Settings, access: OriginAccess)? {
        guard let key = feed.firebase.apiKey else { return nil }
        let appID = feed.firebase.appID ?? "1:0:web:0"
        var settings = try InvalidationStream.Settings(
            base: feed.firebase.realtimeURL ?? feed.url ?? InvalidationStream.Settings.defaultBase, project: project,
            namespace: namespace, apiKey: key, appID: appID)
        settings.installation = try installation(feed, forGoogle: feed.url == nil && feed.firebase.realtimeURL == nil)
        return (settings, try plainAccess(feed, to: settings.url))
    }

    /// - Parameter forGoogle: whether it is shown to Google, which serves no request without.
    private func installation(_ feed: Configuration.Feed, forGoogle: Bool) throws -> FirebaseInstallation? {
        guard let base = feed.firebase.installationsURL ?? (forGoogle ? FirebaseInstallation.defaultBase : nil),
            let key = feed.firebase.apiKey
        else { return nil }
        return try FirebaseInstallation(
            base: base, project: feed.firebase.project ?? feed.scope.project.description, apiKey: key,
            appID: feed.firebase.appID ?? "1:0:web:0", access: try plainAccess(feed, to: try OutboundURL(base)))
    }

    private func fence(_ feed: Configuration.Feed) throws -> Fence? {
        guard let url = feed.fence.url else { return nil }
        let proof: Fence.Settings.Proof =
            switch feed.fence.proof {
            case .etag: .etag
            case .pointer: .pointer(feed.fence.pointer ?? .whole)
            case .content: .content(feed.reading)
            case .fetch: .fetch(apiKey: feed.firebase.apiKey ?? "", appID: feed.firebase.appID ?? "1:0:web:0")
            }
        var settings = Fence.Settings(url: try OutboundURL(url), proof: proof)
        settings.wait = feed.fence.wait
        if feed.fence.proof == .fetch {
            settings.installation = try installation(feed, forGoogle: settings.url.host.hasSuffix(".googleapis.com"))
        }
        var access = try plainAccess(feed, to: settings.url)
        if let file = feed.fence.caFile { access.tls = OutboundTLS(caFile: file) }
        return Fence(settings, access: access, kind: TemplateKind(namespace: feed.scope.namespace))
    }

    // MARK: Access

    /// Access that clients have: without credentials. The origin's authority and our certificate are for its own host:
    /// for others, Google's above all, they would take the system's authorities away.
    private func plainAccess(_ feed: Configuration.Feed, to url: OutboundURL) throws -> OriginAccess {
        guard let engine else { throw StartError("no engine was started for it") }
        let isOrigin = try url.host == OutboundURL(feed.url ?? FirebaseTemplates.defaultBase).host
        return OriginAccess(
            engine: engine, policy: policy, tls: isOrigin ? feed.tls : nil, timeout: feed.access.timeout,
            maxBodyBytes: feed.maxBytes)
    }

    private func access(_ feed: Configuration.Feed) throws -> OriginAccess {
        var access = try plainAccess(feed, to: try OutboundURL(feed.url ?? FirebaseTemplates.defaultBase))
        access.headers = feed.access.headers
        if let file = feed.access.tokenFile {
            access.credential = .file(BearerFile(path: file))
        } else if let file = feed.firebase.serviceAccountFile {
            let tokens = AccessTokens(
                account: try ServiceAccount(contentsOf: file), scope: FirebaseTemplates.oauthScope,
                tokenURL: try feed.firebase.tokenURL.map { try OutboundURL($0) }, engine: access.engine, policy: policy)
            access.credential = .account(token: { try await tokens.token() }, refused: { tokens.invalidate() })
        }
        return access
    }
}

extension Configuration.Feed {
    var needsEngine: Bool { kind == .http || kind == .firebase || fence.url != nil }

    fileprivate var reading: ContentReading {
        var reading = document
        reading.checksSchemas = serve != .notify
        return reading
    }

    fileprivate var tls: OutboundTLS? { access.tls == OutboundTLS() ? nil : access.tls }

    /// Whether the origin's own numbers are used here.
    var hasOriginNumbers: Bool { document.version != nil || kind == .firebase && versions == .origin }
}
