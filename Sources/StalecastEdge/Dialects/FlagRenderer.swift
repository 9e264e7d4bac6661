import NIOCore
import StalecastTemplate
import StalecastWire

/// Form in which all flags of a version are written.
package enum FlagForm: Int, Sendable, CaseIterable {
    /// OpenFeature's remote evaluation protocol.
    case ofrep
    /// LaunchDarkly's client-side dialect.
    case launchDarkly
    /// LaunchDarkly's, with the reason of each value.
    case launchDarklyReasons
}

/// Writes the flags of one version in one form. Each possible value of a flag is encoded and hashed once; an answer
/// joins these pieces.
final class FlagRenderer: Sendable {
    /// A flag as one member of all.
    struct Piece {
        let json: String
        let hash: ContentHash
        /// Reason why the flag has no value; then the JSON says so. Only of OFREP.
        var refusal: FlagRefusal?

        init(_ json: String) {
            self.json = json
            hash = ContentHash(json)
        }
    }

    private let template: CompiledTemplate
    private let version: VersionNumber
    /// Stem of ETags, up to the hash.
    private let tagStem: String
    /// Beginning of an answer.
    private let head: String
    /// End of an answer.
    private let tail: String
    /// Beginning of what is hashed for an answer's tag.
    private let metadata: String
    /// Pieces by the place of the value's text.
    private let known: [Int: Piece]
    /// Pieces by key; nil leaves the flag out.
    private let withoutValue: [Piece?]
    /// Pieces by key, for those that cannot be made without knowing the client.
    private let withoutKey: [Int: Piece]

    static let style = JSONStyle(asciiOnly: false)
    private static let comma = ContentHash(",")

    /// - Parameter version: 0 for a scope that has none.
    init(_ form: FlagForm, _ template: CompiledTemplate, version: VersionNumber, scope: Scope, projectNumber: UInt64) {
        self.template = template
        self.version = version
        let isOFREP = form == .ofrep
        tagStem = "\(isOFREP ? "ofrep" : "flags")-\(projectNumber)-\(scope.namespace)-"
        metadata = ",\"metadata\":{\"templateVersion\":\"\(version)\"}}"
        head = isOFREP ? "{\"flags\":[" : "{"
        tail = isOFREP ? "]\(metadata)" : "}"
        var (known, withoutKey) = ([Int: Piece](), [Int: Piece]())
        for (place, key) in template.keys.enumerated() {
            for (variation, resolution) in template.resolutions(of: place).enumerated() {
                let text = resolution.text
                let value = FlagValue.json(template.texts[text], template.textTypes[text])
                if isOFREP {
                    known[text] = value.map { Piece(key, $0, resolution) } ?? Piece(key, .noValue)
                } else {
                    let hasReasons = form == .launchDarklyReasons
                    known[text] = value.map { Piece(key, $0, resolution, variation, version, hasReasons: hasReasons) }
                }
            }
            if isOFREP, template.isDrawn(key: place) { withoutKey[place] = Piece(key, .noTargetingKey) }
        }
        (self.known, self.withoutKey) = (known, withoutKey)
        withoutValue = template.keys.map { isOFREP ? Piece($0, nil, nil) : nil }
    }

    /// All flags.
    func rendering(of outcome: ConditionOutcome) -> FetchRendering {
        var (body, hash) = (ByteBuffer(string: head), ContentHash(metadata))
        var isFirst = true
        for key in template.keys.indices {
            guard let piece = piece(of: key, outcome) else { continue }
            if !isFirst {
                body.writeString(",")
                hash.append(Self.comma)
            }
            isFirst = false
            body.writeString(piece.json)
            hash.append(piece.hash)
        }
        body.writeString(tail)
        let state: FetchState = version == 0 ? .noTemplate : template.keys.isEmpty ? .emptyConfig : .update
        let etag = tagStem + hash.text
        return FetchRendering(
            etag: etag, version: version, update: FetchBytes(body: body, state: state, etag: "\"\(etag)\""),
            unchanged: FetchBytes(body: nil, state: .noChange, etag: "\"\(etag)\""))
    }

    /// One flag, whole, as OFREP has it.
    ///
    /// - Throws: `FLAG_NOT_FOUND`, `TARGETING_KEY_MISSING`, and `PARSE_ERROR` for a value of another type.
    func flag(_ name: String, _ outcome: ConditionOutcome) throws(FlagRefusal) -> FetchBytes {
        guard let key = template.place(of: name), let piece = piece(of: key, outcome) else { throw .notFound }
        if let refusal = piece.refusal { throw refusal }
        var body = ByteBuffer(string: piece.json)
        // In place of the brace that ends the flag.
        body.moveWriterIndex(to: body.writerIndex - 1)
        body.writeString(metadata)
        return FetchBytes(body: body, state: .update, etag: nil)
    }

    private func piece(of key: Int, _ outcome: ConditionOutcome) -> Piece? {
        if outcome.isAnonymous, let piece = withoutKey[key] { return piece }
        return template.text(of: key, for: outcome).flatMap { known[$0] } ?? withoutValue[key]
    }
}
