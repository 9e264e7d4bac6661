import NIOCore
import StalecastTemplate
import StalecastWire

extension FlagRenderer.Piece {
    /// - Parameters:
    ///   - value: nil leaves it to the app.
    ///   - resolution: nil is the app's own value.
    init(_ key: String, _ value: JSONValue?, _ resolution: FlagResolution?) {
        let flag: JSONObject = [
            "key": .string(key), "value": value, "reason": .string((resolution?.reason ?? .fallback).rawValue),
            "variant": .string(resolution?.variant ?? FlagResolution.defaultVariant),
        ]
        self.init(JSONValue.object(flag).text(FlagRenderer.style))
    }

    init(_ key: String, _ refusal: FlagRefusal) {
        self.init(JSONValue.object(refusal.json(of: key)).text(FlagRenderer.style))
        self.refusal = refusal
    }
}

extension FetchRendering {
    /// Makes the answer of all flags with the place to hear of new ones, which is part of what its ETag names: a provider
    /// that asks for another client must not keep the stream of the one before, and with it another stage's messages.
    ///
    /// - Parameters:
    ///   - streams: the value of `eventStreams`.
    ///   - held: the tags that the provider holds.
    func bytes(eventStreams streams: String, unless held: String?) -> FetchBytes {
        let etag = "\(etag)-\(ContentHash(streams).text)"
        if ETagSpelling.names(etag, in: held) {
            return FetchBytes(body: nil, state: .noChange, etag: "\"\(etag)\"")
        }
        var body = update.body
        body.moveWriterIndex(to: body.writerIndex - 1)
        body.writeString(",\"eventStreams\":\(streams)}")
        return FetchBytes(body: body, state: update.state, etag: "\"\(etag)\"")
    }
}
