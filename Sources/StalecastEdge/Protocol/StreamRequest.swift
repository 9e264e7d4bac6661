import NIOHTTP1
package import StalecastHTTP
package import StalecastHub
package import StalecastWire

/// Why a request is not served; `sentence` goes to the client.
package struct Refusal: Error, Equatable {
    package let status: Int
    package let sentence: String

    package init(status: Int, sentence: String) {
        self.status = status
        self.sentence = sentence
    }

    static let unknownTopic = Refusal(status: 404, sentence: "no such topic")
    static let unknownProject = Refusal(
        status: 404, sentence: "no such project; give the id or the number of a configured one")
    static func badRequest(_ sentence: String) -> Refusal { Refusal(status: 400, sentence: sentence) }
}

/// A request for a stream or a poll, understood: what both halves of Edge serve.
package struct StreamRequest: Sendable, Equatable {
    package enum Kind: Sendable {
        case events, poll
        /// Firebase's `:streamFetchInvalidations`; its only topic is the scope's hidden one.
        case invalidations
    }

    package var kind: Kind
    /// Without repetitions, in the order given; at least one.
    package var topics: [TopicName]
    /// Id or number; nil is the only project there is.
    package var project: String?
    /// nil is every namespace of the project.
    package var namespace: String?
    /// As shown in the query or in `X-Goog-Api-Key`; the header wins.
    package var apiKey: String?
    package var resume: ResumePoint
    /// How long a poll wants to be held, in milliseconds; nil leaves it to the server.
    package var waitMs: Int?
    /// False for HTTP/1.0, whose streams end with the connection.
    package var isHTTP11: Bool
    /// Whether the connection stays open after a poll's answer.
    package var keepAlive: Bool
    package var origin: String?
    /// A poll that times out is answered 304 instead of an empty 200.
    package var wantsNotModified = false
}

extension StreamRequest {
    /// What the request's names mean on a board.
    ///
    /// - Throws: 400 when the project must be said, 404 for another one, and when none of the topics is there.
    func topics(on board: TopicBoard) throws(Refusal) -> (known: [Topic.Index], unknown: [TopicName]) {
        do { return try board.topics(named: topics, project: project, namespace: namespace) } catch {
            switch error {
            case .projectIsMissing:
                throw .badRequest("there are several projects here; say which: project=, with its id or number")
            case .unknownProject: throw .unknownProject
            case .unknownTopics: throw .unknownTopic
            }
        }
    }
}

/// The header fields a stream request is made from.
package struct StreamHeaders: Equatable {
    package var apiKey: String?
    package var lastEventID: String?
    package var origin: String?
    package var ifNoneMatch: String?
    package var isHTTP11 = true
    package var keepAlive = true

    package init(isHTTP11: Bool = true, keepAlive: Bool = true) {
        self.isHTTP11 = isHTTP11
        self.keepAlive = keepAlive
    }

    /// As an HTTP parser read them.
    package init(_ head: RequestHead) {
        self.init(isHTTP11: head.isHTTP11, keepAlive: head.keepsAlive)
        lastEventID = head.headers.first(name: "last-event-id")
        origin = head.headers.first(name: "origin")
        apiKey = head.headers.first(name: "x-goog-api-key")
        ifNoneMatch = head.headers.first(name: "if-none-match")
    }
}

extension StreamRequest {
    /// Reads the query of `/v1/events` or `/v1/poll`.
    ///
    /// `topic` (repeated or separated by commas), `project` (id or number), `namespace`, `last_event_id` or `cursor`
    /// (the header wins), `have` (a version number), `wait` (`55s`, `500ms`, or seconds), `key` (an API key; the header
    /// wins). Other names are ignored.
    package init(
        kind: Kind, query: some Collection<UInt8>, headers: StreamHeaders, maxTopics: Int
    ) throws(Refusal) {
        var topics: [TopicName] = []
        var named = 0
        var resume = ResumePoint()
        var waitMs: Int?
        var (project, namespace, apiKey): (String?, String?, String?)
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
            case "key": apiKey = value
            case "last_event_id", "lastEventId", "cursor": resume.cursor = value.isEmpty ? nil : value
            case "have": resume.have = try Self.version(value)
            case "wait": waitMs = try Self.milliseconds(value)
            default: break
            }
        }
        guard !topics.isEmpty else { throw .badRequest("name a topic, for example ?topic=PUSH_RC") }
        if topics.count > 1 {
            var seen: Set<TopicName> = []
            topics.removeAll { !seen.insert($0).inserted }
        }
        if let id = headers.lastEventID, !id.isEmpty { resume.cursor = id }
        if resume.cursor == nil, kind == .poll, let tag = headers.ifNoneMatch { resume.cursor = Self.unquoted(tag) }
        self.init(
            kind: kind, topics: topics, project: project, namespace: namespace, apiKey: headers.apiKey ?? apiKey,
            resume: resume, waitMs: waitMs, isHTTP11: headers.isHTTP11, keepAlive: headers.keepAlive,
            origin: headers.origin, wantsNotModified: headers.ifNoneMatch != nil)
    }

    /// Counts repeated names too: what a stranger makes us do stays linear in what it sends.
    private static func add(
        _ names: String, to topics: inout [TopicName], _ named: inout Int, _ most: Int
    ) throws(Refusal) {
        for text in names.utf8.split(separator: UInt8(ascii: ","), maxSplits: most - named) {
            named += 1
            guard named <= most else { throw .badRequest("at most \(most) topics on one stream") }
            let name: TopicName
            do { name = try TopicName(String(decoding: text, as: UTF8.self)) } catch {
                throw .badRequest(error.description)
            }
            topics.append(name)
        }
    }

    private static func version(_ text: String) throws(Refusal) -> VersionNumber {
        guard let version = VersionNumber(text), version >= 0 else {
            throw .badRequest("have is a version number, 0 or more")
        }
        return version
    }

    private static func milliseconds(_ text: String) throws(Refusal) -> Int {
        let (digits, unit) =
            text.hasSuffix("ms") ? (text.dropLast(2), 1) : (text.hasSuffix("s") ? text.dropLast(1) : text[...], 1000)
        guard let count = Int(digits), count >= 0, count <= 86_400_000 else {
            throw .badRequest("wait is a number of seconds, for example 55s")
        }
        return count * unit
    }

    private static func unquoted(_ tag: String) -> String? {
        let bare = ETagSpelling.bare(tag)
        return bare.isEmpty || bare == "*" ? nil : String(bare)
    }

    private static func decode(_ bytes: some Collection<UInt8>) throws(Refusal) -> String {
        if bytes.allSatisfy({ $0 < 0x80 && $0 != UInt8(ascii: "%") && $0 != UInt8(ascii: "+") }) {
            return String(decoding: bytes, as: UTF8.self)
        }
        guard let text = PercentEncoding.decode(bytes: bytes, plusIsBlank: true) else {
            throw .badRequest("a % in the query must be followed by two hexadecimal digits, and make UTF-8")
        }
        return text
    }
}
