package import StalecastWire
import Synchronization

/// One STALE notice for one topic, as JSON on an SSE `data:` line, in a long-poll answer, in a webhook.
package struct StaleMessage: Sendable, Hashable {
    package let topic: TopicName
    package let change: TemplateChange
    /// The version the receiver is known to hold, to which `changedKeys` refers; nil when unknown.
    package let since: VersionNumber?
    /// The union of changed parameter names since `since`; nil means "anything may have changed".
    package let changedKeys: [String]?
    /// Time over which clients are asked to spread their fetches, in milliseconds; 0 means fetch now.
    package let fetchWindowMs: Int
    /// Share of the clients that should report their progress; 1 is all, and is not said.
    package let reportRatio: Double

    /// More names than this are left out (`changedKeys` absent): the message must stay small.
    package static let maxChangedKeys = 64
    /// No message is longer than this, in bytes of JSON; `changedKeys` gives way first. FCM's payload limit.
    package static let maxBytes = 4096
    /// The part of ``maxBytes`` that `changedKeys` may take; topic, project and etag names fill the rest.
    private static let maxChangedKeyBytes = 2500

    package init(
        topic: TopicName, change: TemplateChange, since: VersionNumber?, changedKeys: [String]?, fetchWindowMs: Int = 0,
        reportRatio: Double = 1
    ) {
        (self.topic, self.change, self.since) = (topic, change, since)
        self.changedKeys = changedKeys.flatMap(Self.ifSmall)
        self.fetchWindowMs = fetchWindowMs
        self.reportRatio = reportRatio
    }

    private static func ifSmall(_ keys: [String]) -> [String]? {
        let bytes = keys.reduce(0) { $0 + $1.utf8.count + 3 }
        return keys.count <= maxChangedKeys && bytes <= maxChangedKeyBytes ? keys : nil
    }

    package var json: JSONValue {
        [
            "CONFIG_STATE": "STALE", "type": "refetchEvaluation",
            "topic": .string(topic.description), "project": .string(change.scope.project.description),
            "namespace": .string(change.scope.namespace.description),
            "latestTemplateVersionNumber": .string(String(change.version)),
            "sinceTemplateVersionNumber": since.map { .string(String($0)) }, "etag": .string(change.etag),
            "updateType": .string(change.metadata.updateType.rawValue),
            "updateOrigin": .string(change.metadata.updateOrigin.rawValue),
            "updateTime": .string(change.metadata.updateTime.description),
            "rollbackSource": change.metadata.rollbackSource.map { .string(String($0)) },
            "changedKeys": changedKeys.map { .array($0.map(JSONValue.string)) }, "fetchWindowMs": .int(fetchWindowMs),
            "reportRatio": reportRatio < 1 ? .double((reportRatio * 1e4).rounded(.up) / 1e4) : nil,
            "fence": change.notes.hasFenceTimedOut ? "timeout" : nil,
        ]
    }
}

/// A message encoded once for all its receivers, in the dialect of its topic's subscribers: a server-sent event or a
/// Firebase invalidation, framed as one HTTP chunk, with the plain bytes as a slice of it. It is encoded for the first
/// receiver: most topics of a scope have none.
package final class EncodedMessage: Sendable {
    package let message: StaleMessage
    /// True for the dialect of Firebase's streams.
    package let isInvalidation: Bool
    private let epoch: Epoch
    private let encoded = AtomicLazyReference<Bytes>()

    package init(_ message: StaleMessage, epoch: Epoch, isInvalidation: Bool = false) {
        (self.message, self.epoch, self.isInvalidation) = (message, epoch, isInvalidation)
    }

    package var json: [UInt8] { bytes.json }
    /// The event with its `id`, as one chunk of an HTTP/1.1 body; it lives as long as this object.
    package var chunk: SharedBytes { bytes.chunk }
    /// Chunk without `id`, for all but the last of several messages with one cursor: a client that broke off between
    /// them would otherwise resume after the whole group.
    package var chunkWithoutID: SharedBytes { bytes.chunkWithoutID }

    private var bytes: Bytes {
        // Two loops that come at once both encode, and one result stays.
        encoded.load() ?? encoded.storeIfNil(Bytes(message, epoch, isInvalidation))
    }

    private final class Bytes: Sendable {
        let json: [UInt8]
        let chunk: SharedBytes
        let chunkWithoutID: SharedBytes

        init(_ message: StaleMessage, _ epoch: Epoch, _ isInvalidation: Bool) {
            json = isInvalidation ? Invalidation.json(message.change.version) : message.json.encoded(.wire)
            if isInvalidation {
                chunk = SharedBytes(ChunkEncoder.chunk(json + [0x0A]))
                chunkWithoutID = chunk
                return
            }
            let cursor = Cursor(epoch: epoch, sequence: message.change.sequence)
            chunk = SharedBytes(ChunkEncoder.chunk(SSEEncoder.event(id: cursor.description, data: json)))
            chunkWithoutID = SharedBytes(ChunkEncoder.chunk(SSEEncoder.event(data: json)))
        }
    }

    package var sequence: CommitSequence { message.change.sequence }

    /// The messages of Firebase's real-time stream: one flat object and a line end, because the SDKs' parsers take the
    /// text between the first `{` and the next `}`.
    package enum Invalidation {
        package static func json(_ version: VersionNumber, retryIntervalSeconds: Int? = nil) -> [UInt8] {
            var object: JSONObject = ["latestTemplateVersionNumber": .string(String(version))]
            if let retryIntervalSeconds { object["retryIntervalSeconds"] = .int(retryIntervalSeconds) }
            return JSONValue.object(object).encoded()
        }

        /// Bytes that parsers skip: sent at once, so that headers leave, and as keep-alive.
        package static let keepAlive: [UInt8] = [0x0A]
    }
}

extension SharedBytes {
    /// Bytes inside one HTTP chunk: between the length line and the final CRLF.
    package var chunkPayload: UnsafeBufferPointer<UInt8> {
        let start = buffer.firstIndex(of: 0x0A).map { $0 + 1 } ?? 0
        return UnsafeBufferPointer(rebasing: buffer[start..<count - 2])
    }
}

/// Immutable bytes at a fixed address, shared by every subscriber they are sent to.
///
/// `@unchecked Sendable`: written once in `init`, only read afterwards, freed when the last holder lets go.
package final class SharedBytes: @unchecked Sendable {
    package let base: UnsafePointer<UInt8>
    package let count: Int

    package init(_ bytes: some Collection<UInt8>) {
        let memory = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: max(bytes.count, 1))
        _ = memory.initialize(from: bytes)
        base = UnsafePointer(memory.baseAddress!)
        count = bytes.count
    }

    deinit { base.deallocate() }

    package var buffer: UnsafeBufferPointer<UInt8> { UnsafeBufferPointer(start: base, count: count) }
}
