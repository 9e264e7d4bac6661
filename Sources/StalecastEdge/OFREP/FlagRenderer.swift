import NIOCore
import StalecastTemplate
import StalecastWire

/// Writes the flags of one version. What may be said of each is written and hashed once; an answer joins it.
final class FlagRenderer: Sendable {
    /// A flag as one member of all.
    private struct Piece {
        let json: String
        let hash: ContentHash
        /// Why the flag has no value; then the JSON says so.
        var refusal: FlagRefusal?

        init(_ flag: JSONObject) {
            json = JSONValue.object(flag).text(FlagRenderer.style)
            hash = ContentHash(json)
        }

        init(_ key: String, _ refusal: FlagRefusal) {
            self.init(refusal.json(of: key))
            self.refusal = refusal
        }

        /// - Parameter value: nil leaves it to the app.
        init(_ key: String, _ value: JSONValue?, _ reason: FlagResolution.Reason, _ variant: String) {
            var flag: JSONObject = ["key": .string(key)]
            flag["value"] = value
            flag["reason"] = .string(reason.rawValue)
            flag["variant"] = .string(variant)
            self.init(flag)
        }
    }

    private let template: CompiledTemplate
    private let version: VersionNumber
    /// Stem of ETags, up to the hash.
    private let tagStem: String
    /// End of an answer.
    private let metadata: String
    /// Pieces by the place of the value's text.
    private let known: [Int: Piece]
    /// Pieces by key.
    private let withoutValue: [Piece]
    /// Pieces by key, for those that cannot be made without knowing the client.
    private let withoutKey: [Int: Piece]

    private static let style = JSONStyle(asciiOnly: false)
    private static let comma = ContentHash(",")

    /// - Parameter version: 0 for a scope that has none.
    init(_ template: CompiledTemplate, version: VersionNumber, scope: Scope, projectNumber: UInt64) {
        self.template = template
        self.version = version
        tagStem = "ofrep-\(projectNumber)-\(scope.namespace)-"
        metadata = ",\"metadata\":{\"templateVersion\":\"\(version)\"}}"
        var (known, withoutKey) = ([Int: Piece](), [Int: Piece]())
        for (place, key) in template.keys.enumerated() {
            for resolution in template.resolutions(of: place) {
                let text = resolution.text
                let value = FlagValue.json(template.texts[text], template.textTypes[text])
                known[text] =
                    value.map { Piece(key, $0, resolution.reason, resolution.variant) } ?? Piece(key, .noValue)
            }
            if template.isDrawn(key: place) { withoutKey[place] = Piece(key, .noTargetingKey) }
        }
        (self.known, self.withoutKey) = (known, withoutKey)
        withoutValue = template.keys.map { Piece($0, nil, .fallback, FlagResolution.defaultVariant) }
    }

    /// All flags.
    func rendering(of outcome: ConditionOutcome) -> FetchRendering {
        var (body, hash) = (ByteBuffer(string: "{\"flags\":["), ContentHash(metadata))
        for key in template.keys.indices {
            if key > 0 {
                body.writeString(",")
                hash.append(Self.comma)
            }
            let piece = piece(of: key, outcome)
            body.writeString(piece.json)
            hash.append(piece.hash)
        }
        body.writeString("]\(metadata)")
        let state: FetchState = version == 0 ? .noTemplate : template.keys.isEmpty ? .emptyConfig : .update
        let etag = tagStem + hash.text
        return FetchRendering(
            etag: etag, version: version, update: FetchBytes(body: body, state: state, etag: "\"\(etag)\""),
            unchanged: FetchBytes(body: nil, state: .noChange, etag: "\"\(etag)\""))
    }

    /// One flag, whole.
    ///
    /// - Throws: `FLAG_NOT_FOUND`, `TARGETING_KEY_MISSING`, and `PARSE_ERROR` for a value that is none of its type.
    func flag(_ name: String, _ outcome: ConditionOutcome) throws(FlagRefusal) -> FetchBytes {
        guard let key = template.place(of: name) else { throw .notFound }
        let piece = piece(of: key, outcome)
        if let refusal = piece.refusal { throw refusal }
        var body = ByteBuffer(string: piece.json)
        // In place of the brace that ends the flag.
        body.moveWriterIndex(to: body.writerIndex - 1)
        body.writeString(metadata)
        return FetchBytes(body: body, state: .update, etag: nil)
    }

    private func piece(of key: Int, _ outcome: ConditionOutcome) -> Piece {
        if outcome.isAnonymous, let piece = withoutKey[key] { return piece }
        return template.text(of: key, for: outcome).flatMap { known[$0] } ?? withoutValue[key]
    }
}

extension FetchBytes {
    /// Makes the answer of all flags, with the place to hear of new ones.
    ///
    /// - Parameter streams: the value of `eventStreams`.
    convenience init(_ rendering: FetchRendering, eventStreams streams: String) {
        var body = rendering.update.body
        body.moveWriterIndex(to: body.writerIndex - 1)
        body.writeString(",\"eventStreams\":\(streams)}")
        self.init(body: body, state: rendering.update.state, etag: "\"\(rendering.etag)\"")
    }
}
