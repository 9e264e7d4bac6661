import StalecastOutbound
import StalecastSources
import StalecastWire
import Yams

extension ConfigurationReading {
    /// Reads an entry of `sources.scopes`. Whether the scope exists is checked when the projects are known.
    mutating func feed(_ entry: Entry) -> Configuration.Feed? {
        let path = entry.path
        let scope = value("scope", of: entry, parse: scope)
        let kind = value("kind", of: entry, parse: OptionKind<SourceKind>.choice.parse)
        if let scope {
            mentionedScopes.append(("\(path).scope", scope))
            claim("\(scope)", "scope", of: entry)
        }
        // Which of the other keys mean something depends on the kind.
        guard let kind else { return nil }
        var feed = Configuration.Feed(scope: scope ?? Self.anyScope, kind: kind)
        var isSound = true
        for (name, node) in entry.fields.sorted(by: { $0.key < $1.key }) where name != "scope" && name != "kind" {
            place("\(path).\(name)", at: origin(of: node))
            isSound = read(name, node, at: "\(path).\(name)", into: &feed) && isSound
        }
        if isSound { check(feed, at: path) }
        return isSound && scope != nil ? feed : nil
    }

    /// Scope of an entry whose own was refused, while the rest of it is read.
    private static let anyScope = Scope(project: .demo, namespace: .firebase)

    /// - Returns: false, with a note, for a value that is refused.
    private mutating func read(
        _ name: String, _ node: Node, at path: String, into feed: inout Configuration.Feed
    ) -> Bool {
        guard let field = SourceField.all.first(where: { $0.entry.name == name && $0.kinds.contains(feed.kind) }) else {
            note("\(path) means nothing for kind \(feed.kind.rawValue); remove it", at: path)
            return false
        }
        switch field.read {
        case .scalar(let read):
            guard let text = text(of: node, at: path, expected: "one value") else { return false }
            return attempt(at: path) { try read(text, &feed) } != nil
        case .list(let read):
            guard let texts = uniqueValues(node, at: path, parse: { $0 }) else { return false }
            return attempt(at: path) { try read(texts, &feed) } != nil
        case .headers:
            guard let headers = sourceHeaders(node, at: path) else { return false }
            feed.access.headers = headers
            return true
        }
    }

    private mutating func sourceHeaders(_ node: Node, at path: String) -> [OutboundHeader]? {
        guard let pairs = namesAndValues(node, at: path) else { return nil }
        var headers: [OutboundHeader] = []
        for (name, text) in pairs {
            if Self.ownHeaders.contains(name.lowercased()) {
                note("\(path): \(name) is set by the daemon itself; remove it", at: path)
                return nil
            }
            guard let header = attempt(at: path, { try OutboundHeader(name, text) }) else { return nil }
            headers.append(header)
        }
        return headers
    }

    /// Header fields that libcurl and a conditional GET send themselves; sent twice, the origin would see two different
    /// requests.
    private static let ownHeaders: Set<String> = [
        "host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "expect",
        "if-none-match", "if-modified-since", "accept-encoding", "range",
    ]

    /// Checks rules that involve more than one key of an entry.
    private mutating func check(_ feed: Configuration.Feed, at path: String) {
        if feed.kind == .file, feed.path == nil { note("\(path) has no path; name the file or directory", at: path) }
        if feed.kind == .http, feed.url == nil { note("\(path) has no url; name the document", at: path) }
        if feed.access.tokenFile != nil, feed.firebase.serviceAccountFile != nil {
            note("\(path): tokenFile and serviceAccountFile exclude each other", at: path)
        }
        if (feed.access.tls.certificateFile == nil) != (feed.access.tls.keyFile == nil) {
            note("\(path): certificateFile and keyFile go together", at: path)
        }
        if feed.maxAge > .zero, feed.maxAge < feed.effectiveInterval * 2 {
            note(
                "\(path).maxAge: \(feed.maxAge.spelled) cannot be kept by looking each \(feed.effectiveInterval.spelled) "
                    + "(interval); it must be at least twice that", at: path)
        }
        checkFence(feed, at: path)
    }

    private mutating func checkFence(_ feed: Configuration.Feed, at path: String) {
        let isProofNamed = feed.fence.pointer != nil || feed.fence.proof != .etag
        if feed.fence.url == nil, isProofNamed {
            note("\(path) has no fenceUrl; name it or remove the fence", at: path)
        }
        if (feed.fence.proof == .pointer) != (feed.fence.pointer != nil) {
            note("\(path): fenceProof pointer and fencePointer go together", at: path)
        }
        let hasNumbers = feed.kind == .firebase && feed.versions == .origin || feed.document.version != nil
        if !hasNumbers, feed.fence.proof == .pointer || feed.fence.proof == .fetch {
            note(
                "\(path).fenceProof: \(feed.fence.proof.rawValue) compares version numbers, and this source has none "
                    + "of the origin's; use content or etag", at: path)
        }
        if feed.kind == .file, feed.fence.url != nil, feed.fence.proof == .etag, !hasNumbers {
            note("\(path).fenceProof: a file has no ETag; use content", at: path)
        }
    }
}
