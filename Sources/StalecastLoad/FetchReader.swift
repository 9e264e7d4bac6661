/// Reads one HTTP answer after the other from a connection, in pieces cut anywhere: its status, its body's hash, and
/// the template version in it. Nothing of a body is kept.
package struct FetchReader {
    package init() {}

    package enum Progress: Equatable {
        case incomplete
        case answered(Answer)
        /// Input that is no HTTP answer with an end.
        case broken
    }

    /// Facts of an answer that are kept.
    package struct Answer: Equatable {
        package var status = 0
        /// Bytes of the body.
        package var byteCount = 0
        package var hash = RunningHash()
        /// `templateVersion`; 0 when the body has none.
        package var version: Int64 = 0
    }

    private var head: AnswerHead?
    /// A head cut by a read.
    private var pending: [UInt8] = []
    private var bodyLeft = 0
    private var chunks = ChunkDecoder()
    private var answer = Answer()
    private var search = VersionSearch()

    /// Takes what was read; there must be nothing behind the answer's end.
    package mutating func receive(_ bytes: Bytes) -> Progress {
        if head != nil { return receiveBody(bytes) }
        if pending.isEmpty { return receiveHead(bytes) }
        let searched = pending.count
        var whole: [UInt8] = []
        swap(&whole, &pending)
        whole.append(contentsOf: bytes)
        let progress = whole.withUnsafeBytes { receiveHead($0, searched: searched) }
        if head == nil, progress == .incomplete { pending = whole }
        return progress
    }

    private mutating func receiveHead(_ bytes: Bytes, searched: Int = 0) -> Progress {
        guard let head = AnswerHead(bytes, searched: searched) else {
            if searched == 0 { pending = Array(bytes) }
            return bytes.count > AnswerHead.maxBytes ? .broken : .incomplete
        }
        answer = Answer()
        answer.status = head.status
        search = VersionSearch()
        chunks = ChunkDecoder()
        switch head.framing {
        case .length(let count): bodyLeft = count
        case .chunked: bodyLeft = .max
        case .untilClose: return .broken
        }
        self.head = head
        return receiveBody(bytes.part(head.byteCount..<bytes.count))
    }

    private mutating func receiveBody(_ bytes: Bytes) -> Progress {
        if head?.framing == .chunked {
            var (hash, count, search) = (answer.hash, answer.byteCount, search)
            let used = chunks.decode(bytes) {
                hash.add($0)
                search.add($0)
                count += $0.count
            }
            (answer.hash, answer.byteCount, self.search) = (hash, count, search)
            if chunks.isBroken || used < bytes.count { return .broken }
            return chunks.hasEnded ? finish() : .incomplete
        }
        guard bytes.count <= bodyLeft else { return .broken }
        answer.hash.add(bytes)
        answer.byteCount += bytes.count
        search.add(bytes)
        bodyLeft -= bytes.count
        return bodyLeft == 0 ? finish() : .incomplete
    }

    private mutating func finish() -> Progress {
        head = nil
        answer.version = search.version
        return .answered(answer)
    }

    /// Finds `"templateVersion":"17"` in a body that comes in pieces.
    private struct VersionSearch {
        private(set) var version: Int64 = 0
        /// The end of what was searched, where the text may have begun.
        private var tail: [UInt8] = []

        private static let name: StaticString = "\"templateVersion\":\""
        /// Offset of the `V`, which is rare in JSON.
        private static let anchor = 9
        /// The name and a version of 19 digits.
        private static let longest = 19 + 19 + 1

        mutating func add(_ bytes: Bytes) {
            guard version == 0 else { return }
            if !tail.isEmpty {
                let joint = tail + bytes.prefix(Self.longest)
                joint.withUnsafeBytes { find(in: $0) }
            }
            if version == 0 { find(in: bytes) }
            tail = bytes.count >= Self.longest ? Array(bytes.suffix(Self.longest)) : (tail + bytes).suffix(Self.longest)
        }

        /// A number whose closing quote is not there may go on.
        private mutating func find(in bytes: Bytes) {
            guard let start = bytes.position(after: Self.name, anchor: Self.anchor),
                let end = bytes.position(of: 0x22, from: start), end > start
            else { return }
            version = bytes.number(at: start)
        }
    }
}

/// A hash over bytes that come in pieces, eight at a time: the same however they are cut.
package struct RunningHash: Hashable {
    package init() {}

    private var value: UInt64 = 0xCBF2_9CE4_8422_2325
    /// Bytes that do not fill a word yet, the first in the lowest.
    private var partial: UInt64 = 0
    private var partialBytes: UInt64 = 0

    package mutating func add(_ bytes: Bytes) {
        var index = 0
        while index < bytes.count, partialBytes != 0 {
            push(bytes[index])
            index += 1
        }
        while index + 8 <= bytes.count {
            mix(bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self))
            index += 8
        }
        while index < bytes.count {
            push(bytes[index])
            index += 1
        }
    }

    private mutating func push(_ byte: UInt8) {
        partial |= UInt64(byte) << (8 * partialBytes)
        partialBytes += 1
        guard partialBytes == 8 else { return }
        mix(partial)
        partial = 0
        partialBytes = 0
    }

    private mutating func mix(_ word: UInt64) {
        value = (value ^ word) &* 0x9E37_79B9_7F4A_7C15
        value ^= value >> 29
    }
}
