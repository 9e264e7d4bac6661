import Dispatch
package import NIOCore
import StalecastHTTP
package import StalecastTemplate
package import StalecastWire
import Synchronization

/// The finished answer to every instance with one outcome of a version's conditions: bytes that requests share. A
/// class, as its parts are, so that a fetch takes it with one reference count.
package final class FetchRendering: Sendable {
    /// Tag as on the wire, unquoted.
    package let etag: String
    /// 0 where there is none.
    package let version: VersionNumber
    /// The answer for those that hold something else.
    package let update: FetchBytes
    /// The answer for those whose `If-None-Match` is ``etag``.
    package let unchanged: FetchBytes

    init(etag: String, version: VersionNumber, update: FetchBytes, unchanged: FetchBytes) {
        (self.etag, self.version, self.update, self.unchanged) = (etag, version, update, unchanged)
    }

    /// Bytes that the rendering takes in memory, with the most that its form in gzip may take.
    package var byteCount: Int { update.byteCount + unchanged.byteCount + update.body.readableBytes / 2 }

    /// - Parameter held: the tags that the client holds.
    func bytes(unless held: String?) -> FetchBytes { ETagSpelling.names(etag, in: held) ? unchanged : update }
}

/// State of the config that a fetch reports. Raw values are on the wire.
package enum FetchState: String, Sendable, CaseIterable {
    case update = "UPDATE"
    case noChange = "NO_CHANGE"
    case noTemplate = "NO_TEMPLATE"
    case emptyConfig = "EMPTY_CONFIG"

    var index: Int {
        switch self {
        case .update: 0
        case .noChange: 1
        case .noTemplate: 2
        case .emptyConfig: 3
        }
    }
}

/// A body and the constant part of its head.
package final class FetchBytes: Sendable {
    /// Status line and whole header lines, open for more lines.
    package let head: ByteBuffer
    package let body: ByteBuffer
    package let state: FetchState
    let etag: String?
    let packed = Mutex(PackedAnswer())

    var byteCount: Int { head.readableBytes + body.readableBytes }

    /// - Parameters:
    ///   - body: nil answers 304.
    ///   - etag: as on the wire; nil has none.
    ///   - isPacked: the body is gzip.
    init(body: ByteBuffer?, state: FetchState, etag: String?, isPacked: Bool = false) {
        self.state = state
        self.etag = etag
        self.body = body ?? ByteBuffer()
        let coding = isPacked ? "Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n" : ""
        let content = body.map { body in
            "Content-Type: application/json; charset=utf-8\r\nContent-Length: \(body.readableBytes)\r\n\(coding)"
        }
        head = ByteBuffer(
            string: """
                HTTP/1.1 \(body == nil ? "304 Not Modified" : "200 OK")\r
                \(content ?? "")Cache-Control: no-store\r
                X-Content-Type-Options: nosniff\r
                \(etag.map { "ETag: \($0)\r\n" } ?? "")
                """)
    }

    /// Largest body that is copied behind its head: writing the two apart costs more.
    private static let mostCopied = 8192

    /// One answer in pieces to be written: its head and its body, together where that is cheaper.
    ///
    /// - Parameter ending: of ``ending(date:fields:)``.
    func pieces(ending: [UInt8]) -> (first: ByteBuffer, rest: ByteBuffer?) {
        let isCopied = body.readableBytes <= Self.mostCopied
        var first = ByteBuffer()
        first.reserveCapacity(head.readableBytes + ending.count + (isCopied ? body.readableBytes : 0))
        first.writeImmutableBuffer(head)
        first.writeBytes(ending)
        if isCopied { first.writeImmutableBuffer(body) }
        return (first, isCopied ? nil : body)
    }

    /// End of an answer's head: the same for all of one second, origin and kind of connection.
    ///
    /// - Parameter fields: lines for some requests, each ending in CRLF.
    static func ending(date: String, fields: String) -> [UInt8] { Array("Date: \(date)\r\n\(fields)\r\n".utf8) }
}

/// Makes the answers of one version, by joining the pieces of its template. A client chooses the outcome, because
/// custom signals are its own word; it must not be able to ask for more than a copy.
package struct FetchRenderer: Sendable {
    /// nil while the scope has none.
    private let template: ReadyTemplate?
    private let number: VersionNumber
    private let version: String
    /// Stem of ETags, up to the hash.
    private let tagStem: String

    /// - Parameter template: nil makes the answer for a scope without a template.
    package init(_ template: ReadyTemplate?, version: VersionNumber, scope: Scope, projectNumber: UInt64) {
        self.template = template
        number = version
        self.version = "\"templateVersion\":\"\(version)\""
        tagStem = "etag-\(projectNumber)-\(scope.namespace)-fetch-"
    }

    private static let style = JSONStyle(asciiOnly: false)
    private static let sortedStyle = JSONStyle(asciiOnly: false, sortedKeys: true)

    /// - Parameter outcome: of ``template``; nil where there is none.
    package func rendering(of outcome: ConditionOutcome?) -> FetchRendering {
        guard let template, let values = outcome.map({ template.compiled.values(for: $0) }) else {
            return finished(ByteBuffer(string: "{"), ContentHash("{"), .noTemplate)
        }
        var (body, hash) = Self.begun(values.places, template)
        for (name, list) in [
            ("experimentDescriptions", values.experimentDescriptions), ("rolloutMetadata", values.rolloutMetadata),
        ] where !list.isEmpty {
            let json = JSONValue.array(list)
            body.writeString("\"\(name)\":\(json.text(Self.style)),")
            hash.append(ContentHash("\"\(name)\":\(json.text(Self.sortedStyle)),"))
        }
        return finished(body, hash, body.readableBytes == 1 ? .emptyConfig : .update)
    }

    /// A body up to the end of its `entries`, which it has not when there are none, and what the ETag stands for, so
    /// far.
    private static func begun(
        _ places: [ResolvedValues.Place], _ template: ReadyTemplate
    ) -> (ByteBuffer, ContentHash) {
        guard !places.isEmpty else { return (ByteBuffer(string: "{"), ContentHash("{")) }
        let (keys, texts) = (template.keys, template.texts)
        let beginning = "{\"entries\":{"
        // A comma for each, and some room for what follows.
        let count = places.reduce(256) { $0 + keys[$1.key].range.count + texts[$1.text].range.count + 1 }
        var (body, hash) = (ByteBuffer(), ContentHash(beginning))
        let comma = ContentHash(",")
        body.reserveCapacity(count)
        body.writeString(beginning)
        body.writeWithUnsafeMutableBytes(minimumWritableBytes: count) { room in
            template.bytes.withUnsafeBytes { bytes in
                var written = 0
                func write(_ piece: ReadyTemplate.Piece) {
                    UnsafeMutableRawBufferPointer(rebasing: room[written...])
                        .copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[piece.range]))
                    written += piece.range.count
                    hash.append(piece.hash)
                }
                for (number, place) in places.enumerated() {
                    if number > 0 {
                        room[written] = UInt8(ascii: ",")
                        written += 1
                        hash.append(comma)
                    }
                    write(keys[place.key])
                    write(texts[place.text])
                }
                return written
            }
        }
        body.writeString("},")
        hash.append(ContentHash("},"))
        return (body, hash)
    }

    /// - Parameters:
    ///   - members: `{`, and members with a comma behind each.
    ///   - hash: of the same, with members sorted at every level.
    private func finished(_ members: ByteBuffer, _ hash: ContentHash, _ state: FetchState) -> FetchRendering {
        var (body, hash) = (members, hash)
        hash.append(ContentHash(version + "}"))
        let etag = "\(tagStem)\(hash.text)"
        // iOS keeps the personalization it had when an update is silent about it, so an update never is.
        let end = state == .update ? ",\"personalizationMetadata\":{}}" : "}"
        body.writeString("\"state\":\"\(state.rawValue)\",\(version)\(end)")
        let unchanged = ByteBuffer(string: "{\"state\":\"\(FetchState.noChange.rawValue)\",\(version)}")
        return FetchRendering(
            etag: etag, version: number, update: FetchBytes(body: body, state: state, etag: etag),
            unchanged: FetchBytes(body: unchanged, state: .noChange, etag: etag))
    }
}

/// An answer in gzip, which is made when it is asked for the second time: many answers are one client's alone.
struct PackedAnswer: Sendable {
    private var requests = 0
    /// nil until it is made, and where it would not be much smaller.
    var bytes: FetchBytes?

    /// Smallest body that is packed, in bytes. A smaller one fits into one packet, so that gzip saves nothing.
    static let leastBytes = 1400

    /// - Returns: whether it is to be made now.
    mutating func ask() -> Bool {
        guard requests < 2 else { return false }
        requests += 1
        return requests == 2
    }
}

extension FetchBytes {
    /// Packs bodies, so that no stream waits for it.
    private static let packer = DispatchQueue(label: "stalecast.gzip", qos: .utility)

    /// The bytes for a client: in gzip when it takes that and they are there.
    func coded(admitsGzip: Bool) -> FetchBytes {
        guard admitsGzip, body.readableBytes >= PackedAnswer.leastBytes else { return self }
        let (packed, isDue) = packed.withLock { ($0.bytes, $0.bytes == nil && $0.ask()) }
        if isDue { Self.packer.async { self.pack() } }
        return packed ?? self
    }

    private func pack() {
        // Half of the body has a place in the cache's books.
        guard let gzip = Deflater.gzip(Array(body.readableBytesView), most: body.readableBytes / 2) else { return }
        let made = FetchBytes(body: ByteBuffer(bytes: gzip), state: state, etag: etag, isPacked: true)
        packed.withLock { $0.bytes = made }
    }
}
