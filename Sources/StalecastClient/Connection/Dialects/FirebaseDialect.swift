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
    private var objects = JSONObjects()

    package init(endpoint: URL, _ stream: FirebaseStreamRequest, options: ConnectionOptions, version: Int64) {
        self.endpoint = endpoint
        self.stream = stream
        self.options = options
        self.version = version
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
        objects = JSONObjects()
        guard head.mediaType == "application/json" else {
            throw LinkLoss(.foreign, "the answer is \(head.mediaType), not a stream of JSON")
        }
    }

    package mutating func receive(_ bytes: [UInt8]) throws(LinkLoss) -> [DialectStep<Output>] {
        var steps: [DialectStep<Output>] = []
        for byte in bytes {
            switch objects.take(byte) {
            case .none: break
            case .whole(let object): steps += read(object)
            case .tooLong:
                steps.append(.output(.invalidMessage("a message is longer than \(JSONObjects.maxBytes) bytes")))
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

    /// Finds whole JSON objects in a text that arrives in pieces cut anywhere, with anything between them. Each byte is
    /// looked at once.
    private struct JSONObjects {
        enum Find {
            case none
            case whole([UInt8])
            /// An object of more than ``maxBytes``, told at its end; it is skipped.
            case tooLong
        }

        static let maxBytes = 64 << 10

        private var object: [UInt8] = []
        /// Depth of braces; 0 outside of objects.
        private var depth = 0
        private var isInString = false
        private var isEscaped = false
        private var isTooLong = false

        mutating func take(_ byte: UInt8) -> Find {
            if depth == 0 {
                guard byte == UInt8(ascii: "{") else { return .none }
                (object, isTooLong) = ([], false)
            }
            if object.count < Self.maxBytes { object.append(byte) } else { isTooLong = true }
            if isInString {
                if isEscaped {
                    isEscaped = false
                } else if byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else if byte == UInt8(ascii: "\"") {
                    isInString = false
                }
                return .none
            }
            switch byte {
            case UInt8(ascii: "\""): isInString = true
            case UInt8(ascii: "{"): depth += 1
            case UInt8(ascii: "}"): depth -= 1
            default: break
            }
            guard depth == 0 else { return .none }
            return isTooLong ? .tooLong : .whole(object)
        }
    }
}
