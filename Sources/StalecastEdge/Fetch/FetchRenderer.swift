import NIOCore
package import StalecastTemplate
package import StalecastWire

/// Makes the answers of one version. Each name, and each value that some instance may get, is written and hashed once,
/// when the version comes; an answer joins them. Who fetches chooses the outcome, custom signals being its own word,
/// and must not be able to ask for more than a copy.
package struct FetchRenderer: Sendable {
    /// nil while the scope has none.
    package let template: CompiledTemplate?
    private let number: VersionNumber
    private let version: String
    /// Stem of ETags, up to the hash.
    private let tagStem: String
    /// All pieces, one after the other.
    private let bytes: [UInt8]
    private let keys: [Piece]
    private let texts: [Piece]

    private struct Piece {
        let range: Range<Int>
        let hash: ContentHash
    }

    /// - Parameter template: nil answers that there is none.
    package init(_ template: CompiledTemplate?, version: VersionNumber, scope: Scope, projectNumber: UInt64) {
        self.template = template
        number = version
        self.version = "\"templateVersion\":\"\(version)\""
        tagStem = "etag-\(projectNumber)-\(scope.namespace)-fetch-"
        var bytes: [UInt8] = []
        func piece(_ text: String, _ end: String) -> Piece {
            let start = bytes.count
            let json = JSONValue.string(text).text(Self.style) + end
            bytes.append(contentsOf: json.utf8)
            return Piece(range: start..<bytes.count, hash: ContentHash(json))
        }
        keys = template?.keys.map { piece($0, ":") } ?? []
        texts = template?.texts.map { piece($0, "") } ?? []
        self.bytes = bytes
    }

    private static let style = JSONStyle(asciiOnly: false)
    private static let sortedStyle = JSONStyle(asciiOnly: false, sortedKeys: true)

    /// - Parameter outcome: of ``template``; nil where there is none.
    package func rendering(of outcome: ConditionOutcome?) -> FetchRendering {
        guard let values = outcome.flatMap({ template?.values(for: $0) }) else {
            return finished(ByteBuffer(string: "{"), ContentHash("{"), .noTemplate)
        }
        var (body, hash) = begun(values.places)
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
    private func begun(_ places: [ResolvedValues.Place]) -> (ByteBuffer, ContentHash) {
        guard !places.isEmpty else { return (ByteBuffer(string: "{"), ContentHash("{")) }
        let beginning = "{\"entries\":{"
        // A comma for each, and some room for what follows.
        let count = places.reduce(256) { $0 + keys[$1.key].range.count + texts[$1.text].range.count + 1 }
        var (body, hash) = (ByteBuffer(), ContentHash(beginning))
        let comma = ContentHash(",")
        body.reserveCapacity(count)
        body.writeString(beginning)
        body.writeWithUnsafeMutableBytes(minimumWritableBytes: count) { room in
            bytes.withUnsafeBytes { bytes in
                var written = 0
                func write(_ piece: Piece) {
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
