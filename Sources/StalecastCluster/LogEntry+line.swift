import Crypto
package import StalecastRecords
import StalecastStore
package import StalecastWire

/// Stored form of an entry: one line of JSON, a line feed, and the content as zlib packs it. Members that are not known
/// are skipped, so that a newer node may add some.
extension LogEntry {
    /// Packed contents up to this size stand in the entry, in bytes.
    package static let maxInline = 64 * 1024
    /// etcd takes requests of 1.5 MiB; the rest is for the request around it.
    package static let chunkSize = 1_000_000
    /// No content is larger, unpacked, in bytes: no node could read its entry, nor go on behind it.
    package static let maxContent = 16 << 20

    /// Form in which a content is stored: in the entry, or beside it when it is long.
    ///
    /// - Returns: also the pieces that must be stored before the entry; none for an inline content.
    package static func storing(_ content: [UInt8]) -> (Content, chunks: [[UInt8]]) {
        let packed = Zlib.packed(content)
        guard packed.count > maxInline else { return (.inline(content), []) }
        let chunks = stride(from: 0, to: packed.count, by: chunkSize).map {
            Array(packed[$0..<min($0 + chunkSize, packed.count)])
        }
        return (.beside(ContentKey(digest: digest(content), size: content.count, chunks: chunks.count)), chunks)
    }

    /// The stored form.
    package var encoded: [UInt8] {
        var line = JSONValue.object(head).encoded() + [0x0A]
        if case .inline(let content) = content { line += Zlib.packed(content) }
        return line
    }

    /// Reads the stored form.
    ///
    /// - Parameter sequence: where it was found; an entry that says another is refused.
    /// - Throws: ``LogError/unreadable(_:)``
    package init(_ bytes: [UInt8], at sequence: CommitSequence) throws(LogError) {
        // What cannot be parsed is thrown as unreadable.
        guard let end = bytes.firstIndex(of: 0x0A), let head = JSONValue.ifValid(bytes[..<end], maxDepth: 8),
            let change = TemplateChange(head: head), change.sequence == sequence,
            let publish = head["publish"]?.string.flatMap({ PublishID($0) }),
            let previous = head["previous"]?.string.flatMap({ LogHead($0) }), previous.sequence == sequence - 1,
            let releases = Self.releases(head, of: change.scope),
            let content = Self.content(head, Array(bytes[(end + 1)...]), isStep: !releases.isEmpty)
        else { throw .unreadable("entry \(sequence) of the log cannot be read") }
        self.init(
            change: change, releases: releases, publish: publish, after: previous, node: head["node"]?.string ?? "",
            fetchWindowMs: min(max(0, head["fetchWindowMs"]?.int64 ?? 0), 86_400_000), content: content)
    }

    /// Puts the pieces of a content together.
    ///
    /// - Throws: ``LogError/unreadable(_:)`` when they are not what the key says.
    package static func content(_ key: ContentKey, from chunks: [[UInt8]]) throws(LogError) -> [UInt8] {
        // The digest shows pieces that were exchanged or damaged.
        guard chunks.count == key.chunks, let content = Zlib.unpacked(chunks.flatMap(\.self), size: key.size),
            digest(content) == key.digest
        else { throw .unreadable("the content \(key.digest) is not what its entry says") }
        return content
    }

    /// nil when one of them cannot be read.
    private static func releases(_ head: JSONValue, of scope: Scope) -> [Release]? {
        let records = head["releases"]?.array ?? []
        let releases = records.compactMap { Release(record: $0) }.filter { $0.scope == scope }
        return releases.count == records.count ? releases : nil
    }

    private static func content(_ head: JSONValue, _ rest: [UInt8], isStep: Bool) -> Content? {
        // A step of a release has no content: what follows its line is damage.
        if isStep, head["sha256"] == nil { return rest.isEmpty ? .absent : nil }
        guard let digest = head["sha256"]?.string, digest.utf8.count == 64, let size = head["size"]?.int64,
            let size = Int(exactly: size), (0...maxContent).contains(size)
        else { return nil }
        if let chunks = head["chunks"]?.int64 {
            // More pieces than bytes are an error.
            guard digest.utf8.allSatisfy(\.isASCIIAlphanumeric), (1...64).contains(chunks) else { return nil }
            return .beside(ContentKey(digest: digest, size: size, chunks: Int(chunks)))
        }
        guard let content = Zlib.unpacked(rest, size: size), Self.digest(content) == digest else { return nil }
        return .inline(content)
    }

    private var head: JSONObject {
        var head: JSONObject = [
            "sequence": .int(change.sequence), "project": .string(change.scope.project.description),
            "namespace": .string(change.scope.namespace.description), "publish": .string(publish.description),
            "previous": .string(previous.description), "node": .string(node), "version": change.metadata.json,
            "etag": .string(change.etag), "fetchWindowMs": .int(fetchWindowMs),
            "changedKeys": change.changedKeys.map { .array($0.map(JSONValue.string)) },
            "releases": releases.isEmpty ? nil : .array(releases.map(\.record)),
            "urgent": change.notes.isUrgent ? true : nil, "fenceTimedOut": change.notes.hasFenceTimedOut ? true : nil,
        ]
        switch content {
        case .inline(let content):
            head["sha256"] = .string(Self.digest(content))
            head["size"] = .int(content.count)
        case .beside(let key):
            head["sha256"] = .string(key.digest)
            head["size"] = .int(key.size)
            head["chunks"] = .int(key.chunks)
        case .absent: break
        }
        return head
    }

    private static func digest(_ content: [UInt8]) -> String {
        let digits = Array("0123456789abcdef".utf8)
        return String(
            decoding: SHA256.hash(data: content).flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] },
            as: UTF8.self)
    }
}

extension TemplateChange {
    /// Reads what an entry's line says; nil when something without which there is no version is missing.
    fileprivate init?(head: JSONValue) {
        // An invalid name makes the entry unreadable; see ``LogError/unreadable(_:)``.
        guard let sequence = head["sequence"]?.int64.flatMap({ CommitSequence(exactly: $0) }), sequence > 0,
            let project = head["project"]?.string.flatMap({ try? ProjectID($0) }),
            let namespace = head["namespace"]?.string.flatMap({ try? Namespace($0) }),  // not a name: unreadable line
            let metadata = head["version"].flatMap({ VersionMetadata(json: $0) }), let etag = head["etag"]?.string
        else { return nil }
        self.init(
            scope: Scope(project: project, namespace: namespace), sequence: sequence, metadata: metadata, etag: etag,
            changedKeys: head["changedKeys"]?.array?.compactMap(\.string),
            notes: ChangeNotes(
                isUrgent: head["urgent"]?.bool ?? false, hasFenceTimedOut: head["fenceTimedOut"]?.bool ?? false))
    }
}

extension VersionMetadata {
    /// Reads what ``json`` wrote; an enum value of a newer program reads as unspecified.
    fileprivate init?(json: JSONValue) {
        guard let number = json["versionNumber"]?.versionNumber, number > 0,
            let updateTime = json["updateTime"]?.string.flatMap({ Timestamp($0) })
        else { return nil }
        self.init(
            number: number, updateTime: updateTime, updateUser: UpdateUser(json: json["updateUser"]),
            description: json["description"]?.string ?? "",
            updateOrigin: json["updateOrigin"]?.string.flatMap { UpdateOrigin(rawValue: $0) } ?? .unspecified,
            updateType: json["updateType"]?.string.flatMap { UpdateType(rawValue: $0) } ?? .unspecified,
            rollbackSource: json["rollbackSource"]?.versionNumber)
    }
}
