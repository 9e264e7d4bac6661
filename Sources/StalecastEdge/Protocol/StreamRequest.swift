import NIOHTTP1
package import StalecastAccess
package import StalecastHTTP
package import StalecastHub
package import StalecastWire

extension GoogleError {
    static let unknownTopic = GoogleError(
        404, "no such topic; the daemon's configuration names the topics, and `stalecast topics` lists them")
    static let unknownProject = GoogleError(404, "no such project; give the id or the number of a configured one")
    static let tooManyTickets = GoogleError(429, "too many unused tickets; use them, or wait").with(
        "Retry-After", "5")
    static let tooManyReports = GoogleError(429, "too many reports; send a sample of them, and failures later").with(
        "Retry-After", "1")
}

/// A request for a stream or a poll, understood: what both halves of Edge serve.
package struct StreamRequest: Sendable, Equatable {
    package enum Kind: Sendable {
        case events, poll
        /// A poll that is never held: what is current, now.
        case state
        /// Firebase's `:streamFetchInvalidations`; its only topic is the scope's hidden one.
        case invalidations
        /// Pings of LaunchDarkly's SDKs, on the same topic.
        case pings

        /// A stream that hears of every version of one scope, and of nothing else.
        var isOfScope: Bool { self == .invalidations || self == .pings }
    }

    package var kind: Kind
    /// Topics without repetitions, in the order given; at least one.
    package var topics: [TopicName]
    /// Id or number; nil is the only project there is.
    package var project: String?
    /// nil is every namespace of the project.
    package var namespace: String?
    package var credentials = Credentials()
    /// Client that the request names; nil when it does not.
    package var client: ClientIdentity?
    package var resume: ResumePoint
    /// Time that a poll wants to be held, in milliseconds; nil leaves it to the server.
    package var waitMs: Int?
    /// False for HTTP/1.0, whose streams end with the connection.
    package var isHTTP11: Bool
    /// Whether the connection stays open after a poll's answer.
    package var keepAlive: Bool
    package var origin: String?
    /// Round of a poll whose answer a cache may give to many clients; nil for a client's own poll. See ``SharedPoll``.
    package var round: Int64?
    /// A poll that times out is answered 304 instead of an empty 200.
    package var wantsNotModified = false
    /// Values of the header field in which a trusted proxy names its client; see ``TrustedProxies``. Only as the engine
    /// reads it.
    package var forwarded: [String] = []
    /// The client's, as the ledger knows it; 0 while it is not known.
    package var address: UInt64 = 0

    /// Key that leads its client to a stage of a release.
    package var clientKey: ClientKey {
        if round != nil { return .everyone }
        return client.map { ClientKey(id: $0.id) } ?? ClientKey(address: address)
    }
}

extension StreamRequest {
    /// Topics of the request's names on a board.
    ///
    /// - Throws: 400 when the project must be said, 404 for another one, and when none of the topics is there.
    func topics(on board: TopicBoard) throws(GoogleError) -> (known: [Topic.Index], unknown: [TopicName]) {
        do { return try board.topics(named: topics, project: project, namespace: namespace) } catch {
            switch error {
            case .projectIsMissing:
                throw .invalidArgument("there are several projects here; say which: project=, with its id or number")
            case .unknownProject: throw .unknownProject
            case .unknownTopics: throw .unknownTopic
            }
        }
    }
}

package struct StreamHeaders: Equatable {
    package var credentials = Credentials()
    package var client: String?
    package var lastEventID: String?
    package var origin: String?
    package var ifNoneMatch: String?
    package var forwarded: [String] = []
    package var isHTTP11 = true
    package var keepAlive = true
    package var admitsGzip = false

    package init(isHTTP11: Bool = true, keepAlive: Bool = true) {
        self.isHTTP11 = isHTTP11
        self.keepAlive = keepAlive
    }

    package init(_ head: RequestHead) {
        self.init(isHTTP11: head.isHTTP11, keepAlive: head.keepsAlive)
        lastEventID = head.headers.first(name: "last-event-id")
        origin = head.headers.first(name: "origin")
        credentials = Credentials(head)
        client = head.headers.first(name: "x-stalecast-client")
        ifNoneMatch = head.headers.first(name: "if-none-match")
    }
}

extension StreamRequest {
    /// Reads the query of `/v1/events` or `/v1/poll`.
    ///  `topic` (repeated or separated by commas), `project` (id or number), `namespace`, `last_event_id` or `cursor`
    /// (the header wins), `have` (a version number), `wait` (`55s`, `500ms`, or seconds), `key` (an API key; the header
    /// wins), `ticket`, and of the client itself `client` (its id; the header `X-Stalecast-Client` wins), `app`, `sdk`
    /// and `active` (the version it runs). `round` makes a poll a shared one. Other names are ignored.
    package init(
        kind: Kind, query: some Collection<UInt8>, headers: StreamHeaders, maxTopics: Int
    ) throws(GoogleError) {
        self.init(
            kind: kind, topics: [], credentials: headers.credentials, resume: ResumePoint(),
            isHTTP11: headers.isHTTP11, keepAlive: headers.keepAlive, origin: headers.origin,
            wantsNotModified: headers.ifNoneMatch != nil, forwarded: headers.forwarded)
        // The Front has read both from the query already: here they would count as repeated.
        (credentials.queryKey, credentials.ticket) = (nil, nil)
        var (named, round) = (0, Int64?.none)
        var (id, app, sdk, active) = (headers.client, "", "", VersionNumber?.none)
        var rest = query[...]
        while !rest.isEmpty {
            let end = rest.firstIndex(of: UInt8(ascii: "&")) ?? rest.endIndex
            let item = rest[..<end]
            rest = rest[end...].dropFirst()
            guard let equals = item.firstIndex(of: UInt8(ascii: "=")) else { continue }
            let value = try Self.decode(item[equals...].dropFirst())
            switch String(decoding: item[..<equals], as: UTF8.self) {
            case "topic": try Self.add(value, to: &topics, &named, maxTopics)
            case "project": project = value
            case "namespace": namespace = value
            case "key":
                if credentials.queryKey != nil { credentials.isRepeated = true }
                credentials.queryKey = value
            case "ticket":
                if credentials.ticket != nil { credentials.isRepeated = true }
                credentials.ticket = value
            case "last_event_id", "lastEventId", "cursor": resume.cursor = value.isEmpty ? nil : value
            case "have": resume.have = try Self.version(value, "have")
            case "client": id = headers.client ?? value
            case "app": app = value
            case "sdk": sdk = value
            case "active": active = try Self.version(value, "active")
            case "wait": waitMs = try Self.milliseconds(value)
            case "round": round = kind == .poll ? try SharedPoll.round(value) : nil
            default: break
            }
        }
        guard !topics.isEmpty else { throw .invalidArgument("name a topic, for example ?topic=PUSH_RC") }
        if topics.count > 1 {
            var seen: Set<TopicName> = []
            topics.removeAll { !seen.insert($0).inserted }
        }
        if let id = headers.lastEventID, !id.isEmpty { resume.cursor = id }
        if resume.cursor == nil, kind == .poll, round == nil, let tag = headers.ifNoneMatch {
            resume.cursor = Self.unquoted(tag)
        }
        client = try Self.identity(id, app, sdk, active)
        if let round { try share(round, isOwn: headers.lastEventID != nil || credentials.queryKey != nil) }
    }

    /// Makes it a poll that many clients ask at once through a cache.
    ///
    /// - Parameter isOwn: whether it carries what tells its client from others, beyond what the request names.
    private mutating func share(_ round: Int64, isOwn: Bool) throws(GoogleError) {
        guard client == nil, resume.have == nil, credentials.ticket == nil, !isOwn else {
            throw .invalidArgument(
                "a poll with round= is answered for many clients at once: leave out client, have, key, ticket and "
                    + "Last-Event-ID, put the cursor into the query, and the key into a header")
        }
        self.round = round
        wantsNotModified = false
        // A client that begins is told the newest version with its cursor.
        if resume.cursor == nil { resume.have = 0 }
    }

    /// Reads the body of `/v1/tickets`: `topics`, a list of names, and `project` and `namespace` as in the query.
    init(ticketBody body: JSONObject, _ credentials: Credentials, maxTopics: Int) throws(GoogleError) {
        guard let names = body["topics"]?.array?.compactMap(\.string), !names.isEmpty,
            names.count == body["topics"]?.array?.count
        else { throw .invalidArgument("name topics, for example {\"topics\": [\"PUSH_RC\"]}") }
        for name in ["project", "namespace"] where body[name] != nil && body[name]?.string == nil {
            throw .invalidArgument("\(name) is a text")
        }
        guard names.count <= maxTopics else { throw .invalidArgument("at most \(maxTopics) topics on one stream") }
        var topics: [TopicName] = []
        for name in names {
            do { topics.append(try TopicName(name)) } catch { throw .invalidArgument(error.description) }
        }
        self.init(
            kind: .events, topics: topics, project: body["project"]?.string, namespace: body["namespace"]?.string,
            credentials: credentials, resume: ResumePoint(), isHTTP11: true, keepAlive: true)
    }

    /// Counts repeated names too: what a stranger makes us do stays linear in what it sends.
    private static func add(
        _ names: String, to topics: inout [TopicName], _ named: inout Int, _ most: Int
    ) throws(GoogleError) {
        for text in names.utf8.split(separator: UInt8(ascii: ","), maxSplits: most - named) {
            named += 1
            guard named <= most else { throw .invalidArgument("at most \(most) topics on one stream") }
            let name: TopicName
            do { name = try TopicName(String(decoding: text, as: UTF8.self)) } catch {
                throw .invalidArgument(error.description)
            }
            topics.append(name)
        }
    }

    private static func version(_ text: String, _ name: String) throws(GoogleError) -> VersionNumber {
        guard let version = VersionNumber(text) else {
            throw .invalidArgument("\(name) is a version number, 0 to \(VersionNumber.max)")
        }
        return version
    }

    private static func identity(
        _ id: String?, _ app: String, _ sdk: String, _ active: VersionNumber?
    ) throws(GoogleError) -> ClientIdentity? {
        guard let id else { return nil }
        guard let identity = ClientIdentity(id, app: app, sdk: sdk, active: active) else {
            throw .invalidArgument("client is 1 to 128 characters of A-Z a-z 0-9 . _ ~ : @ -")
        }
        return identity
    }

    private static func milliseconds(_ text: String) throws(GoogleError) -> Int {
        let (digits, unit) =
            text.hasSuffix("ms") ? (text.dropLast(2), 1) : (text.hasSuffix("s") ? text.dropLast(1) : text[...], 1000)
        guard let count = Int(digits), count >= 0, count <= 86_400_000 else {
            throw .invalidArgument("wait is a number of seconds, for example 55s")
        }
        return count * unit
    }

    private static func unquoted(_ tag: String) -> String? {
        let bare = ETagSpelling.bare(tag)
        return bare.isEmpty || bare == "*" ? nil : String(bare)
    }

    private static func decode(_ bytes: some Collection<UInt8>) throws(GoogleError) -> String {
        // Specialised here: the decoder of another module is generic, and asked for each value of each request.
        if bytes.allSatisfy({ $0 < 0x80 && $0 != UInt8(ascii: "%") && $0 != UInt8(ascii: "+") }) {
            return String(decoding: bytes, as: UTF8.self)
        }
        guard let text = PercentEncoding.decode(bytes: bytes, plusIsBlank: true) else {
            throw .invalidArgument("a % in the query must be followed by two hexadecimal digits, and make UTF-8")
        }
        return text
    }
}
