import Glibc
import StalecastWire
import Synchronization

/// Newest sequence of a store, kept outside its database: a database that is behind its mark was rolled back (a
/// restored file, a snapshot of the disk), and its cursors must not be believed.
///
/// The file has two slots that are written in turn, each with a checksum, so a write that was cut short leaves the
/// other. It is written after every commit but not synchronised: losing it to a power cut leaves a lower mark, which
/// is harmless, and every commit would pay for a second synchronisation.
final class HighWaterMark: Sendable {
    /// Content of a mark.
    struct Reading: Sendable, Hashable {
        let epoch: Epoch
        let head: CommitSequence
    }

    /// Result of reading the mark at the start.
    enum Finding: Sendable, Hashable {
        case missing
        /// The file is there, but no slot of it makes sense.
        case damaged
        case mark(Reading)
    }

    private static let slotSize = 512
    private static let magic = "stalecast-highwater-1"

    let found: Finding
    private let path: String
    private let descriptor: Int32
    /// Writes so far, over all starts; its lowest bit chooses the slot.
    private let generation: Mutex<UInt64>

    init(_ path: String) throws(FileOperation.Failure) {
        // The file is created before the database and written after it, so an empty one holds no mark.
        let isNew = (FileOperation.size(path) ?? 0) == 0
        let file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw FileOperation.Failure("open", path) }
        self.path = path
        descriptor = file
        let slots = (0..<2).compactMap { Self.readSlot($0, of: file) }
        // A slot that was torn has a wrong checksum, and is not among them.
        let newest = slots.max { $0.generation < $1.generation }
        found = newest.map { .mark($0.reading) } ?? (isNew ? .missing : .damaged)
        generation = Mutex(newest?.generation ?? 0)
    }

    deinit { close(descriptor) }

    /// Writes the mark in place; needs no new space after the first two times.
    func write(_ reading: Reading) throws(FileOperation.Failure) {
        let failure: FileOperation.Failure? = generation.withLock { generation in
            generation += 1
            let slot = Self.encode(reading, generation: generation)
            let offset = off_t(generation & 1) * off_t(Self.slotSize)
            let written = pwrite(descriptor, slot, slot.count, offset)
            return written == slot.count
                ? nil : FileOperation.Failure("write", path, code: written < 0 ? errno : ENOSPC)
        }
        if let failure { throw failure }
    }

    /// Fills both slots and makes them survive power loss: once per start, so that later writes only overwrite.
    func establish(_ reading: Reading) throws(FileOperation.Failure) {
        try write(reading)
        try write(reading)
        guard fsync(descriptor) == 0 else { throw FileOperation.Failure("fsync", path) }
    }

    private static func encode(_ reading: Reading, generation: UInt64) -> [UInt8] {
        var slot: [UInt8] = []
        slot.reserveCapacity(slotSize)
        slot += "\(magic) \(generation) \(reading.epoch) \(reading.head) ".utf8
        slot += "\(checksum(slot))\n".utf8
        slot.append(contentsOf: repeatElement(0x20, count: slotSize - slot.count))
        return slot
    }

    private static func readSlot(_ index: Int, of file: Int32) -> (generation: UInt64, reading: Reading)? {
        var bytes = [UInt8](repeating: 0, count: slotSize)
        guard pread(file, &bytes, slotSize, off_t(index * slotSize)) == slotSize else { return nil }
        let words = String(decoding: bytes.prefix { $0 != 0x0A }, as: UTF8.self).split(separator: " ")
        guard words.count == 5, words[0] == magic, let generation = UInt64(words[1]),
            let epoch = Epoch(String(words[2])), let head = CommitSequence(words[3]),
            UInt64(words[4]) == checksum((words[..<4].joined(separator: " ") + " ").utf8)
        else { return nil }
        return (generation, Reading(epoch: epoch, head: head))
    }

    /// FNV-1a, 64 bits: finds torn writes, not forgery.
    private static func checksum(_ bytes: some Sequence<UInt8>) -> UInt64 {
        bytes.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
    }
}
