import Crypto
package import StalecastWire

/// The identity of one publish, whatever becomes of it: 26 characters of base32 (128 bits), spelled as an epoch is.
package struct PublishID: Hashable, Sendable, CustomStringConvertible {
    private let code: Epoch

    /// nil for what is not spelled so.
    package init?(_ text: String) {
        guard let code = Epoch(text) else { return nil }
        self.code = code
    }

    private init(code: Epoch) { self.code = code }

    package static func random(using generator: inout some RandomNumberGenerator) -> PublishID {
        PublishID(code: .random(using: &generator))
    }

    package static func random() -> PublishID { PublishID(code: .random()) }

    /// Identity of a publish that its publisher named: the same for the same name.
    package init(of name: String) {
        var letters = SHA256.hash(data: Array("publish \(name)".utf8)).makeIterator()
        var generator = Bytes { letters.next() ?? 0 }
        self.init(code: .random(using: &generator))
    }

    /// Identity of one attempt at a publish that its publisher named. Attempts at one name have one stem, and differ in
    /// the rest: after a restore the same name can land again, and must not look like the entry that is lost.
    package init(of name: String, using generator: inout some RandomNumberGenerator) {
        let stem = PublishID(of: name).description.prefix(PublishStem.length)
        let chance = PublishID.random(using: &generator).description.suffix(PublishStem.idLength - PublishStem.length)
        // Both are parts of such codes.
        self.init(code: Epoch("\(stem)\(chance)") ?? .random(using: &generator))
    }

    /// Whether both are attempts at one request.
    package func isSameRequest(as other: PublishID) -> Bool {
        description.prefix(PublishStem.length) == other.description.prefix(PublishStem.length)
    }

    private struct Bytes: RandomNumberGenerator {
        let byte: () -> UInt8
        mutating func next() -> UInt64 { UInt64(byte()) }
    }

    package var description: String { code.description }
}

/// The part of a publish's identity that says which request it is; the rest differs between attempts at it.
package enum PublishStem {
    /// Characters of an identity, and of its stem: 90 bits.
    package static let idLength = 26
    package static let length = 18

    /// Every identity of the request, first and last.
    package static func range(of publish: String) -> (String, String) {
        let stem = String(publish.prefix(length))
        // After every character of base32.
        return (stem, stem + "~")
    }
}

/// The end of a history. Each publish id has at least 40 random bits, and an entry is appended only behind the head it
/// was made for, so two histories that end alike are alike in everything before. A sequence alone says nothing after a
/// restore: the same number is given again.
package struct LogHead: Hashable, Sendable, CustomStringConvertible {
    /// 0 is an empty log.
    package let sequence: CommitSequence
    /// Publish of the entry at ``sequence``; nil for an empty log only.
    package let publish: PublishID?

    package static let empty = LogHead(sequence: 0, publish: nil)

    private init(sequence: CommitSequence, publish: PublishID?) {
        self.sequence = sequence
        self.publish = publish
    }

    package init(_ sequence: CommitSequence, _ publish: PublishID) { self.init(sequence: sequence, publish: publish) }

    /// nil unless `text` is what `description` prints.
    package init?(_ text: String) {
        let parts = text.split(separator: " ", omittingEmptySubsequences: false)
        guard parts.count <= 2, let sequence = CommitSequence(parts[0]) else { return nil }
        let publish = parts.count == 2 ? PublishID(String(parts[1])) : nil
        guard (publish == nil) == (sequence == 0), (parts.count == 1) == (publish == nil) else { return nil }
        self.init(sequence: sequence, publish: publish)
    }

    /// `<sequence> <publish id>`, or `0`.
    package var description: String { publish.map { "\(sequence) \($0)" } ?? "0" }
}
