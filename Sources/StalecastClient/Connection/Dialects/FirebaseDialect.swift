package import Foundation
import StalecastWire

/// Firebase's real-time stream, `:streamFetchInvalidations`: JSON objects, with anything between them.
package struct FirebaseDialect: LinkDialect {
    package typealias Output = ConnectionEvent

    private let endpoint: URL
    private let stream: FirebaseStreamRequest
    private let options: ConnectionOptions
    /// The version that is held; 0 for none.
    package var version: Int64
    private var objects = JSONObjectScanner(maxBytes: maxBytes)

    /// The longest message that is read.
    private static let maxBytes = 64 << 10

    package init(endpoint: URL, _ stream: FirebaseStreamRequest, options: ConnectionOptions, version: Int64) {
        (self.endpoint, self.stream, self.options, self.version) = (endpoint, stream, options, version)
    }

    package var opening: LinkOpening { .head }

    package func request() -> PlannedRequest {
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

    package mutating func begin(_ head: ResponseHead) throws(LinkLoss) {
        objects = JSONObjectScanner(maxBytes: Self.maxBytes)
        guard head.mediaType == "application/json" else {
            throw LinkLoss(.foreign, "the answer is \(head.mediaType), not a stream of JSON")
        }
    }

    package mutating func receive(_ bytes: [UInt8]) throws(LinkLoss) -> [DialectStep<Output>] {
        var steps: [DialectStep<Output>] = []
        for byte in bytes {
            switch objects.take(byte) {
            case .between, .inside: break
            case .whole(let object): steps += read(object)
            case .tooLong:
                steps.append(.output(.invalidMessage("a message is longer than \(Self.maxBytes) bytes")))
            }
        }
        return steps
    }

    package func end() -> DialectEnd<Output> { .closed }

    private func read(_ object: [UInt8]) -> [DialectStep<Output>] {
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
