import Foundation
import StalecastWire

/// Firebase's real-time stream, `:streamFetchInvalidations`: flat JSON objects, with anything between them.
struct FirebaseDialect: LinkDialect {
    typealias Output = ConnectionEvent

    /// More text without a whole object is dropped.
    private static let maxObjectBytes = 64 << 10

    private let endpoint: URL
    private let stream: FirebaseStreamRequest
    private let options: ConnectionOptions
    /// The version that is held; 0 for none.
    var version: Int64
    private var text: [UInt8] = []

    init(endpoint: URL, _ stream: FirebaseStreamRequest, options: ConnectionOptions, version: Int64) {
        self.endpoint = endpoint
        self.stream = stream
        self.options = options
        self.version = version
    }

    var opening: LinkOpening { .head }

    func request() -> PlannedRequest {
        let (stream, options, version) = (stream, options, version)
        let path = "v1/projects/\(stream.project)/namespaces/\(stream.namespace):streamFetchInvalidations"
        let url = endpoint.appendingPathComponent(path).adding([URLQueryItem(name: "key", value: stream.apiKey)])
        return .later {
            let (appInstanceID, token) = try await stream.credentials()
            let body: JSONValue = [
                "project": .string(stream.project), "namespace": .string(stream.namespace),
                "lastKnownVersionNumber": .string(String(version)), "appId": .string(stream.appID),
                "sdkVersion": .string(Self.sdkVersion), "appInstanceId": .string(appInstanceID),
            ]
            var request = StreamRequest(method: "POST", url: url, headers: options.headers, body: body.encoded())
            request.prefersURLSession = options.prefersURLSession
            request.set("Content-Type", "application/json")
            request.set("Accept", "application/json")
            request.set("X-Goog-Api-Key", stream.apiKey.isEmpty ? nil : stream.apiKey)
            request.set("X-Goog-Firebase-Installations-Auth", token)
            request.set("X-Accept-Response-Streaming", "true")
            return request
        }
    }

    /// Sent as `sdkVersion`: the protocol's, not ours, because servers may judge features by it.
    private static let sdkVersion = "12.2.0"

    mutating func begin(_ head: ResponseHead) throws(LinkLoss) {
        text = []
        guard head.mediaType == "application/json" else {
            throw LinkLoss(.foreign, "the answer is \(head.mediaType), not a stream of JSON")
        }
    }

    mutating func receive(_ bytes: [UInt8]) throws(LinkLoss) -> [DialectStep<Output>] {
        text += bytes
        var steps: [DialectStep<Output>] = []
        while let end = text.firstIndex(of: UInt8(ascii: "}")) {
            if let start = text[..<end].firstIndex(of: UInt8(ascii: "{")) { steps += read(text[start...end]) }
            text.removeFirst(end + 1)
        }
        if text.count > Self.maxObjectBytes {
            text = []
            steps.append(.output(.invalidMessage("a message is longer than \(Self.maxObjectBytes) bytes")))
        }
        return steps
    }

    func end() -> DialectEnd<Output> { .closed }

    private func read(_ object: ArraySlice<UInt8>) -> [DialectStep<Output>] {
        let message: JSONObject
        do throws(JSONError) { message = try JSONValue.parse(object).object ?? [:] } catch {
            return [.output(.invalidMessage("a message is not JSON: \(error)"))]
        }
        if let disabled = message["featureDisabled"], disabled.bool == true || disabled.string == "true" {
            return [.output(.unavailable)]
        }
        var steps: [DialectStep<Output>] = []
        if let latest = message["latestTemplateVersionNumber"]?.int64, latest > version {
            var notice = NoticeReader.notice(message, topic: "")
            (notice.namespace, notice.data["CONFIG_STATE"]) = (stream.namespace, "STALE")
            steps.append(.output(.stale(notice)))
        }
        if let seconds = message["retryIntervalSeconds"]?.int64 { steps.append(.pause(TimeInterval(max(0, seconds)))) }
        return steps
    }
}
