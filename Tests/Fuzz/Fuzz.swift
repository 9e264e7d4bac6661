// Fuzz targets. `deploy/fuzz.sh` compiles this file with the readers it calls into one module, instrumented, and runs
// each target for a while; STALECAST_FUZZ names it. A target traps where a reader breaks a promise; reading must not.
import Foundation
import NIOCore
import NIOEmbedded
import NIOHTTP1

/// Entry point that libFuzzer calls with each input.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    target(Array(UnsafeBufferPointer(start: start, count: count)))
    return 0
}

private let target: @Sendable ([UInt8]) -> Void = {
    let name = ProcessInfo.processInfo.environment["STALECAST_FUZZ"] ?? ""
    guard let target = targets[name] else { fatalError("STALECAST_FUZZ is one of \(targets.keys.sorted())") }
    return target
}()

private let targets: [String: @Sendable ([UInt8]) -> Void] = [
    "access": access, "chunks": chunks, "cursor": cursor, "etcd": etcd, "expression": expression, "fetch": fetch,
    "flags": flags, "front": front, "head": head, "launchdarkly": launchDarkly,
    "invalidations": invalidations, "json": json, "lenient": lenient, "pattern": pattern, "query": query,
    "recogniser": recogniser, "schema": schema, "signature": signature, "sse": sse, "template": template, "time": time,
    "token": token,
    "topics": topics,
    "yaml": yaml,
]

/// Checks that JSON which is read, written and read again is the same.
@Sendable private func json(_ bytes: [UInt8]) {
    guard let value = try? JSONValue.parse(bytes) else { return }
    for style in [JSONStyle.wire, .pretty] {
        guard let again = try? JSONValue.parse(value.encoded(style)) else { fatalError("what was written is not read") }
        precondition(again.encoded() == value.encoded(), "written and read again it is another value")
    }
}

/// Checks that both readers take a JSON object for the same.
@Sendable private func lenient(_ bytes: [UInt8]) {
    let object = try? LenientJSON.object(bytes)
    guard let strict = try? JSONValue.parse(bytes, maxDepth: 8), case .object(let expected) = strict, let object else {
        return
    }
    precondition(JSONValue.object(object).encoded() == JSONValue.object(expected).encoded(), "the dialects disagree")
}

/// The body of a fetch that is read in place says the same to the lenient reader, of its context and of the client that is
/// counted, or is refused by both.
@Sendable private func fetch(_ bytes: [UInt8]) {
    let now = Timestamp(microseconds: 0)
    bytes.withUnsafeBufferPointer { buffer in
        guard let scan = FetchScan(buffer) else { return }
        guard let object = try? LenientJSON.object(bytes) else {
            fatalError("the lenient reader refuses what is ordinary")
        }
        let context = try? FetchRequest.context(scan, at: now)
        precondition(context == (try? FetchRequest.context(object, at: now)), "read in two ways")
        let app = context?.appID ?? ""
        precondition(
            FetchRequest.client(scan, appID: app) == FetchRequest.client(FetchFields(object), appID: app),
            "counted as two clients")
    }
}

/// A context that is read in place says the same to the other reader, or is refused by both; a value of any type is
/// JSON.
@Sendable private func flags(_ bytes: [UInt8]) {
    for type in ValueType.allCases {
        guard let json = FlagValue.json(text(bytes), type) else { continue }
        precondition((try? JSONValue.parse(json.encoded())) != nil, "a value is no JSON")
    }
    let now = Timestamp(microseconds: 0)
    let scanned = bytes.withUnsafeBufferPointer { bytes in
        FetchScan(bytes, isOfFlags: true).map { FlagContext.context($0, at: now) }
    }
    guard let context = try? FlagContext.context(FlagFields(bytes), at: now) else {
        precondition(scanned == nil, "refused in one way only")
        return
    }
    precondition(scanned == nil || scanned == context, "read in two ways")
    precondition(context.customSignals.count <= FetchRequest.maxAttributes, "the bound does not hold")
    precondition(context.customSignals["targetingKey"] == nil, "an id is no signal")
}

/// A context means the same in a path as in a body; each path is read or refused.
@Sendable private func launchDarkly(_ bytes: [UInt8]) {
    _ = try? LaunchDarklyContext(base64: text(bytes))
    _ = LaunchDarklyPath(text(bytes)[...], authorization: text(bytes))
    let now = Timestamp(microseconds: 0)
    let inBody = try? FlagContext.context(LaunchDarklyContext(bytes).fields, at: now)
    let inPath = try? FlagContext.context(LaunchDarklyContext(base64: Base64URL.encode(bytes)).fields, at: now)
    precondition(inBody == inPath, "read in two ways")
    guard let inBody else { return }
    precondition(inBody.appInstanceID?.isEmpty == false, "a context without a key")
    precondition(inBody.customSignals.count <= FetchRequest.maxAttributes, "the bound does not hold")
}

/// Reads what a member may send; there is nothing to compare it with.
@Sendable private func etcd(_ bytes: [UInt8]) {
    _ = try? EtcdTransaction.Result(bytes)
    _ = try? EtcdWatchResponse(bytes)
    _ = try? EtcdStatus(bytes)
}

private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

@Sendable private func expression(_ bytes: [UInt8]) {
    let text = text(bytes)
    for kind in TemplateKind.allCases {
        guard (try? ConditionExpression(parsing: text, kind: kind)) != nil else { continue }
        let template = Template(
            conditions: [TemplateCondition(name: "c", expression: text)],
            parameters: ["p": TemplateParameter(conditionalValues: ["c": .value("v")])])
        let context = EvaluationContext(
            appID: "1:2:ios:ab", appInstanceID: "cAbCdEfGhIjKlMnOpQrStU", countryCode: "DE", languageCode: "de",
            timeZone: "Europe/Paris", appVersion: "1.2.3", analyticsUserProperties: ["a": "b"],
            customSignals: ["a": "1.2"],
            now: Timestamp(microseconds: 0))
        _ = CompiledTemplate(template, kind: kind).explain(context)
    }
}

@Sendable private func pattern(_ bytes: [UInt8]) {
    let text = text(bytes)
    guard let pattern = try? Pattern(parsing: text) else { return }
    precondition(pattern.program.count <= Pattern.maxSize, "the limit does not hold")
    precondition((try? Pattern.size(of: text)) ?? 0 >= pattern.program.count, "the size was measured wrongly")
    var matcher = Pattern.Matcher()
    var budget = EvaluationBudget(steps: 10_000)
    _ = matcher.finds(pattern, in: Array("some text, 1.2.3 \u{e9}".unicodeScalars.map(\.value)), budget: &budget)
}

@Sendable private func template(_ bytes: [UInt8]) {
    guard let json = try? JSONValue.parse(bytes), let template = try? Template(validating: json, kind: .client) else {
        return
    }
    guard let again = try? Template(validating: template.json, kind: .client) else { fatalError("not valid any more") }
    precondition(again.json.encoded() == template.json.encoded(), "another template after reading it again")
    precondition(TemplateChanges(from: template, to: again).isEmpty, "the same template differs")
    precondition(
        TemplateDifference.changedKeys(from: template, to: again).isEmpty, "the same template has changed keys")
}

/// A list of a schema and a value. A schema within `allOf` says the same, within `not` the opposite; one that is too much
/// work is so in each.
@Sendable private func schema(_ bytes: [UInt8]) {
    guard let pair = try? JSONValue.parse(bytes), let parts = pair.array, parts.count == 2 else { return }
    func complaint(_ schema: JSONValue) -> SchemaComplaint?? {
        var compiler = SchemaCompiler(EvaluationBudget(steps: 100_000))
        guard let schema = try? compiler.schema(schema) else { return nil }
        var check = SchemaCheck(schema, budget: compiler.budget)
        let complaint = check.complaint(about: parts[1])
        // A budget that ends says nothing of the value.
        return check.budget.isExhausted ? nil : .some(complaint)
    }
    guard let plain = complaint(parts[0]) else { return }
    // Within another schema `#` and `$defs` would mean that one.
    let words = text(parts[0].encoded())
    guard !["$ref", "$defs", "$id", "$schema"].contains(where: words.contains) else { return }
    if let within = complaint(["allOf": [parts[0]]]) {
        precondition((within == nil) == (plain == nil), "allOf says something else")
        precondition(within?.path == plain?.path, "the place is another one")
    }
    if let opposite = complaint(["not": parts[0]]) { precondition((opposite == nil) != (plain == nil), "no opposite") }
}

/// Keys, grants and the lines of an audit log. After any line that a log goes on from, the next one follows it.
@Sendable private func access(_ bytes: [UInt8]) {
    if let key = try? APIKey(text(bytes)) { precondition(key.text == text(bytes), "two spellings of one key") }
    if let json = try? JSONValue.parse(bytes) {
        _ = try? AccessKey(record: json)
        if let grant = try? Grant(json, at: "g") {
            precondition((try? Grant(grant.json, at: "g")) == grant, "a grant is another one after it was written")
        }
    }
    var chain = AuditChain()
    guard (try? chain.resume(after: bytes)) != nil else { return }
    var reader = chain
    precondition((try? reader.check(chain.append(["action": "a"]))) == true, "the next line does not follow")
}

/// Tokens and key sets. No key is known that has signed it, so that none is good.
@Sendable private func token(_ bytes: [UInt8]) {
    _ = try? KeySet(bytes, for: Set(TokenAlgorithm.allCases))
    if let decoded = Base64URL.decode(bytes) { precondition(decoded.count == bytes.count * 3 / 4, "bits are lost") }
    var issuer = TokenIssuer(
        name: "i", issuer: "i", audiences: ["a"], algorithms: [.es256, .eddsa, .rs256], keys: .init("f"))
    issuer.grantsInTokens = true
    guard let token = try? SignedToken(text(bytes)), let keys = fuzzedKeys else { return }
    precondition(
        (try? issuer.verify(token, with: keys, at: Timestamp(microseconds: 0))) == nil, "a forged token is good")
}

private let fuzzedKeys = try? KeySet(
    Array(
        #"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#
            .utf8), for: [.eddsa])

/// Checks that the events are the same however the bytes are cut.
@Sendable private func sse(_ bytes: [UInt8]) {
    var whole = SSEParser(maxBytes: 4096)
    let expected = try? whole.receive(bytes)
    var cut = SSEParser(maxBytes: 4096)
    var outputs: [SSEParser.Output] = []
    for byte in bytes {
        guard let more = try? cut.receive([byte]) else {
            precondition(expected == nil, "only the pieces are too long")
            return
        }
        outputs += more
    }
    precondition(expected == outputs && whole.lastEventID == cut.lastEventID, "the cuts make a difference")
}

@Sendable private func chunks(_ bytes: [UInt8]) {
    func decode(_ parts: [[UInt8]]) -> (payload: [UInt8], decoder: ChunkDecoder) {
        var (decoder, payload) = (ChunkDecoder(), [UInt8]())
        for part in parts { part.withUnsafeBytes { _ = decoder.decode($0) { payload.append(contentsOf: $0) } } }
        return (payload, decoder)
    }
    let (whole, cut) = (decode([bytes]), decode(bytes.map { [$0] }))
    precondition(whole.payload == cut.payload, "the cuts make a difference")
    precondition(
        whole.decoder.isBroken == cut.decoder.isBroken && whole.decoder.hasEnded == cut.decoder.hasEnded,
        "the cuts make a difference")
}

@Sendable private func cursor(_ bytes: [UInt8]) {
    let text = text(bytes)
    guard let cursor = Cursor(text) else { return }
    precondition(cursor.description == text, "two spellings of one cursor")
}

@Sendable private func time(_ bytes: [UInt8]) {
    if let time = Timestamp(text(bytes)) {
        precondition(Timestamp(time.description) == time, "a time is another one after it was written")
    }
    if bytes.count >= 8 {
        let number = bytes.prefix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        _ = Timestamp(microseconds: Int64(bitPattern: number)).description
    }
}

@Sendable private func topics(_ bytes: [UInt8]) {
    let text = text(bytes)
    _ = (try? TopicCondition(parsing: text))?.holds { _ in true }
    _ = (try? KeyPattern(text))?.matches("some_parameter_name")
}

@Sendable private func query(_ bytes: [UInt8]) {
    _ = try? StreamRequest(kind: .events, query: bytes[...], headers: StreamHeaders(), maxTopics: 4)
}

/// A stream or poll that is recognised is a whole head of one GET, and nothing a parser of HTTP could read in another
/// way.
@Sendable private func recogniser(_ bytes: [UInt8]) {
    let request = bytes.withUnsafeBufferPointer { Recogniser.find($0, maxTopics: 4)?.stream }
    guard request != nil else { return }
    let text = text(bytes)
    precondition(text.hasPrefix("GET /v1/") && text.utf8.elementsEqual(bytes), "no GET, or no text")
    precondition(bytes.suffix(4) == [13, 10, 13, 10], "no end")
    let lines = bytes.dropLast(4).split(separator: 10, omittingEmptySubsequences: false).map { Array($0) }
    for (number, line) in lines.enumerated() {
        let line = number == lines.count - 1 ? line : Array(line.dropLast())
        precondition(number == lines.count - 1 || lines[number].last == 13, "a bare line feed")
        precondition(
            !line.isEmpty && line.allSatisfy { $0 == 9 || (32..<127).contains($0) }, "a control character or a gap")
        precondition(number == 0 || (line[0] != 32 && line[0] != 9), "a folded line")
    }
    let names = lines.dropFirst().map { String(decoding: $0.prefix { $0 != 58 }, as: UTF8.self).lowercased() }
    precondition(Set(names).isDisjoint(with: ["transfer-encoding", "content-length", "upgrade", "expect"]), "a body")
    precondition(names.count { $0 == "host" } <= 1, "two hosts")
}

/// Checks that NIO's parser and the Front's rules read what the recogniser takes in the same way: path, query with its
/// topics and cursor, headers.
@Sendable private func front(_ bytes: [UInt8]) {
    let found = bytes.withUnsafeBufferPointer { Recogniser.find($0, maxTopics: 4) }
    if case .beginningOfFetch? = found { return }
    guard let (head, body) = parsed(bytes) else {
        return precondition(found == nil, "the Front refuses what was recognised")
    }
    let request: StreamRequest
    switch found {
    case .stream(let stream): request = stream
    case .fetch(let fetch): return same(fetch, bytes, head, body)
    case .beginningOfFetch, nil: return
    }
    precondition(head.method == .GET && head.framing == .none && !head.expectsContinue, "another kind of request")
    let path = request.kind == .events ? "/v1/events" : request.kind == .poll ? "/v1/poll" : "/v1/state"
    precondition(head.path == path[...], "another path")
    let same = try? StreamRequest(
        kind: request.kind, query: head.query.utf8, headers: StreamHeaders(head), maxTopics: 4)
    precondition(request == same, "read in two ways")
}

private func same(_ fetch: FetchHead, _ bytes: [UInt8], _ head: RequestHead, _ body: [UInt8]) {
    precondition(head.method == .POST && head.isHTTP11 && !head.expectsContinue, "another kind of request")
    precondition(head.path.utf8.elementsEqual(bytes[fetch.path]), "another path")
    precondition(bytes[fetch.length...].elementsEqual(body), "another body")
    precondition(head.keepsAlive == fetch.keepAlive, "another end")
    precondition(head.headers.first(name: "if-none-match") == fetch.ifNoneMatch, "another tag")
    precondition(head.headers.first(name: "origin") == fetch.origin, "another origin")
    var credentials = Credentials(head)
    if credentials.authorization?.hasPrefix("FIS_v2 ") ?? false { credentials.authorization = nil }
    precondition(credentials == fetch.credentials, "other credentials")
}

/// A whole request, as the Front reads it; nil for anything else.
private func parsed(_ bytes: [UInt8]) -> (RequestHead, body: [UInt8])? {
    let channel = EmbeddedChannel()
    defer { _ = try? channel.finish(acceptAlreadyClosed: true) }
    do {
        try channel.pipeline.syncOperations.addHandler(
            ByteToMessageHandler(HTTPRequestDecoder(leftOverBytesStrategy: .dropBytes)))
        try channel.writeInbound(ByteBuffer(bytes: bytes))
        guard case .head(let head)? = try channel.readInbound(as: HTTPServerRequestPart.self) else { return nil }
        var body: [UInt8] = []
        var next = try channel.readInbound(as: HTTPServerRequestPart.self)
        while case .body(let bytes)? = next {
            body += bytes.readableBytesView
            next = try channel.readInbound(as: HTTPServerRequestPart.self)
        }
        guard case .end? = next, try channel.readInbound(as: HTTPServerRequestPart.self) == nil else { return nil }
        return (try RequestHead(head), body)
    } catch { return nil }
}

/// A head ends once, at an empty line, and says nothing that was not sent.
@Sendable private func head(_ bytes: [UInt8]) {
    var reader = ResponseHeadReader()
    for line in bytes.split(separator: 10, omittingEmptySubsequences: false) {
        guard case .head(let head) = (line + [10]).withUnsafeBytes({ reader.take($0) }) else { continue }
        precondition(head.status >= 200, "an interim answer counts")
        precondition(head.headers.keys.allSatisfy { $0 == $0.lowercased() }, "a name is not in lower case")
        if let wait = head.retryAfter(now: Date(timeIntervalSince1970: 0)) {
            precondition((0...3600).contains(wait), "a pause without bounds")
        }
        return
    }
}

/// Checks that the messages are the same however the bytes are cut.
@Sendable private func invalidations(_ bytes: [UInt8]) {
    var (whole, cut) = (InvalidationParser(), InvalidationParser())
    let expected = try? whole.receive(bytes)
    var messages = Array((expected ?? []).prefix(0))
    for byte in bytes {
        guard let more = try? cut.receive(CollectionOfOne(byte)) else {
            return precondition(expected == nil, "only the pieces are no stream")
        }
        messages += more
    }
    precondition(expected == messages, "the cuts make a difference")
    for message in messages {
        precondition(message.version.map { $0 > 0 && $0 <= .max } ?? true, "a version out of range")
        precondition(
            message.retryInterval.map { $0 >= .zero && $0 <= .seconds(3600) } ?? true, "a pause without bounds")
    }
}

/// Checks that no input signs by chance; `signatures` after the first line, the time before it.
@Sendable private func signature(_ bytes: [UInt8]) {
    let parts = bytes.split(separator: 10, maxSplits: 1, omittingEmptySubsequences: false).map { text(Array($0)) }
    let signatures = parts.count > 1 ? parts[1] : ""
    for now in [Timestamp(microseconds: 1_614_265_330_000_000), nil] {
        let isTaken: Void? = try? signatureCheck.verify(
            messageID: "a", timestamp: parts[0], signatures: signatures, body: [1], at: now)
        precondition(isTaken == nil, "a signature that no key made")
    }
    let headers = ["webhook-id": "a", "webhook-timestamp": parts[0], "webhook-signature": signatures]
    _ = SignedPost(headers: headers, now: Timestamp(microseconds: 1_614_265_330_000_000))
}

private let signatureCheck = SignatureCheck(
    key: try! VerificationKey("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))

/// Checks that what is read as JSON can be written and read as JSON; the configuration's reader ends, too.
@Sendable private func yaml(_ bytes: [UInt8]) {
    _ = try? ConfigurationDocument(text: text(bytes), file: "f")
    guard let value = try? YAMLContent.parse(bytes) else { return }
    precondition((try? JSONValue.parse(value.encoded()))?.encoded() == value.encoded(), "what was read is no JSON")
}
