import CLinux
import Foundation
import StalecastAccess
package import StalecastWire
import Synchronization

/// Log of changes and their authors, as lines of an ``AuditChain`` in `audit.jsonl` of the data directory, mode 0600. A
/// line is with the kernel before the answer to what it tells of: it survives the end of the process, not the loss of
/// power. A version that a caller commits is an ``AuditEntry`` of its transaction as well, see ``AuditCopies``; what a
/// source or a webhook's delivery does is a line only, which a kill right after the commit can prevent.
///
/// A file that is full is renamed (see ``AuditFiles``) and the chain goes on in another one, whose first line says so.
package final class AuditLog: Sendable {
    package struct Limits: Sendable, Equatable {
        /// Size from which another file is begun. Default 64 MiB, some 200,000 changes.
        package var maxBytes = 64 << 20
        /// Full files that stay. Default 16.
        package var keep = 16

        package init() {}
    }

    private struct State: Sendable {
        var file: Int32
        var size: Int64
        /// The size at which another file is begun, or tried again.
        var rotateAt: Int64
        var chain: AuditChain
        /// End of the blocks that are set aside for lines to come.
        var reservedTo: Int64 = 0
        /// The file ends in the middle of a line.
        var isTorn: Bool
        var failures = 0
        /// Reason why the last try to begin another file failed; nil after one that worked.
        var rotationProblem: String?
    }

    let directory: String
    private let limits: Limits
    private let state: Mutex<State>
    private let clock: @Sendable () -> Timestamp
    private let append: Append
    /// Reason why the log is not the one that the former daemon wrote, a sentence; nil when it is.
    package let loss: String?
    /// Time of the last line that the former daemon wrote; nil when there is none.
    package let formerEnd: Timestamp?

    private var path: String { "\(directory)/\(AuditFiles.current)" }

    /// Reason why there is no log.
    package struct Problem: Error, CustomStringConvertible { package let description: String }

    /// Function that writes bytes to a file, and returns how many of them the kernel took.
    package typealias Append = @Sendable (UnsafeRawBufferPointer, _ file: Int32) -> Int

    /// Opens the log of a directory, or begins one; blocks.
    ///
    /// - Parameter append: another one plays a full disk.
    package init(
        directory: String, limits: Limits = Limits(), clock: @escaping @Sendable () -> Timestamp = Timestamp.now,
        append: @escaping Append = { DescriptorBytes.write($0, to: $1) }
    ) throws(Problem) {
        let path = "\(directory)/\(AuditFiles.current)"
        let file = try Self.open(path)
        // A process that ended between two files has left none, or an empty one.
        let former = lseek(file, 0, SEEK_END) == 0 ? AuditFiles.former(in: directory).last : nil
        let resumed: Resumed
        do throws(AuditChain.Fault) {
            if let former {
                resumed = try Self.resume(at: "\(directory)/\(former)")
            } else {
                resumed = try Self.resume(file)
            }
        } catch {
            close(file)
            throw Problem(
                description:
                    "\(directory)/\(former ?? AuditFiles.current): \(error); move it away to begin another one, "
                    + "and find out what wrote into it")
        }
        let mark = AuditMark(in: directory)
        loss = mark?.contradiction(resumed.chain, isTorn: resumed.isTorn).map {
            "\(directory)/\(AuditFiles.current) \($0)"
        }
        // Numbers go on: a chain that started over would look as if nothing had been there.
        let known = loss == nil ? nil : mark.map { AuditChain(after: $0.count, $0.hash) }
        formerEnd = resumed.time
        (self.directory, self.limits, self.clock, self.append) = (directory, limits, clock, append)
        state = Mutex(
            State(
                file: file, size: Int64(lseek(file, 0, SEEK_END)), rotateAt: Int64(limits.maxBytes),
                chain: known ?? resumed.chain,
                isTorn: former == nil && resumed.isTorn))
        if known != nil {
            write(AuditChain.lost, [:])
        } else if let former {
            write(AuditChain.rotated, ["former": .string(former)])
        }
    }

    /// Marks how far the log is, so that the next start and `audit verify` notice when lines are gone. Blocks for a
    /// synchronisation.
    package func mark() {
        let reached: AuditMark? = state.withLock { fsync($0.file) == 0 && !$0.isTorn ? AuditMark($0.chain) : nil }
        reached?.write(in: directory)
    }

    private static func open(_ path: String, _ flags: Int32 = 0) throws(Problem) -> Int32 {
        let file = systemOpen(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | flags, 0o600)
        guard file >= 0 else {
            throw Problem(description: "\(path) cannot be opened: \(String(cString: strerror(errno)))")
        }
        return file
    }

    deinit { state.withLock { _ = close($0.file) } }

    /// End of the file that the former daemon wrote.
    private struct Resumed {
        var chain = AuditChain()
        var isTorn = false
        /// Time of the last whole line.
        var time: Timestamp?
    }

    private static func resume(at path: String) throws(AuditChain.Fault) -> Resumed {
        let file = systemOpen(path, O_RDONLY | O_CLOEXEC, 0)
        guard file >= 0 else {
            throw AuditChain.Fault(description: "cannot be read (\(String(cString: strerror(errno))))")
        }
        defer { close(file) }
        return try resume(file)
    }

    /// More than the longest lines there are.
    private static let tailBytes = 1 << 20

    private static func resume(_ file: Int32) throws(AuditChain.Fault) -> Resumed {
        let size = lseek(file, 0, SEEK_END)
        guard size > 0 else { return Resumed() }
        var chain = AuditChain()
        let tail = AuditFiles.tail(of: file, tailBytes)
        let hasLineFeed = tail.last == 0x0A
        var lines = tail.split(separator: 0x0A, omittingEmptySubsequences: false).map(Array.init)
        if hasLineFeed { lines.removeLast() }
        // What follows the last whole line is the beginning of others.
        guard let last = lines.lastIndex(where: { JSONValue.ifValid($0)?["seq"] != nil }) else {
            if size <= tailBytes {
                for line in lines { chain.resume(afterTorn: line) }
                return Resumed(chain: chain, isTorn: true)
            }
            throw AuditChain.Fault(description: "it ends in what is no audit log")
        }
        try chain.resume(after: lines[last])
        for line in lines[(last + 1)...] { chain.resume(afterTorn: line) }
        let time = JSONValue.ifValid(lines[last])?["time"]?.string.flatMap(Timestamp.init)
        return Resumed(chain: chain, isTorn: last + 1 < lines.count || !hasLineFeed, time: time)
    }

    /// Bytes that are kept for lines to come, and how far they may shrink when the disk has no more: there is still
    /// room for those of forty changes under way at once. Between the two are a hundred changes on a full disk.
    private static let reserve: Int64 = 1 << 16
    private static let leastReserve: Int64 = 1 << 14
    /// Bytes of the reserve above which nothing more is set aside.
    private static let ampleReserve: Int64 = 3 << 14

    /// Whether the line of a change that is about to be made will find room. Blocks are set aside behind the end of the
    /// file, so that a disk that fills up meanwhile takes nothing away.
    package func hasRoom() -> Bool {
        state.withLock { state in
            // A change takes a few hundred bytes: setting blocks aside for each would cost a write to the file system.
            if state.reservedTo - state.size >= Self.ampleReserve { return true }
            let isAmple = stalecast_reserve(state.file, Self.reserve) == 0
            guard isAmple || stalecast_reserve(state.file, Self.leastReserve) == 0 else { return false }
            state.reservedTo = state.size + (isAmple ? Self.reserve : Self.leastReserve)
            return true
        }
    }

    private static func hasRoom(_ file: Int32) -> Bool {
        stalecast_reserve(file, reserve) == 0 || stalecast_reserve(file, leastReserve) == 0
    }

    /// Writes a line. When that fails it is counted, and what was to be told goes on: a change that is durable cannot
    /// be taken back for want of a line.
    ///
    /// - Parameter entry: without secrets and values.
    /// - Returns: whether the kernel has all of it.
    @discardableResult
    package func write(_ action: String, _ entry: JSONObject) -> Bool {
        let time = clock()
        return state.withLock { state in
            if state.size >= state.rotateAt, !state.isTorn { rotate(&state, time) }
            return write(Self.entry(action, entry, time), &state, time)
        }
    }

    /// Makes the lines that were written before durable. Blocks for a synchronisation, and keeps no writer waiting.
    package func synchronize() -> Bool {
        let file = state.withLock { dup($0.file) }
        guard file >= 0 else { return false }
        defer { close(file) }
        return fsync(file) == 0
    }

    @discardableResult
    private func write(_ entry: JSONObject, _ state: inout State, _ time: Timestamp) -> Bool {
        // A copy: a line that falls short is not in the file, and the next one must not continue it.
        var chain = state.chain
        var bytes: [UInt8] = []
        if state.isTorn {
            bytes.append(0x0A)
            bytes += chain.append(Self.entry(AuditChain.recovered, [:], time)) + [0x0A]
        }
        bytes += chain.append(entry) + [0x0A]
        let written = bytes.withUnsafeBytes { append($0, state.file) }
        state.size += Int64(written)
        if written == bytes.count {
            state.chain = chain
            state.isTorn = false
            return true
        }
        state.failures += 1
        fell(short: Array(bytes[..<written]), &state)
        return false
    }

    // MARK: Other files

    /// Goes on in another file. Whatever stands in the way, this one goes on meanwhile: no line is lost, and what was
    /// set aside behind its end is there still.
    private func rotate(_ state: inout State, _ time: Timestamp) {
        let next = path + ".next"
        let former = AuditFiles.former(endingAt: state.chain.count)
        unlink(next)
        state.rotateAt = state.size + Self.reserve
        // A file that was moved away is not written any more; the next SIGHUP goes on in another one.
        guard AuditFiles.identity(path) == AuditFiles.identity(state.file) else { return }
        guard access("\(directory)/\(former)", F_OK) != 0 else {
            state.rotationProblem = "\(former) is there already"
            return
        }
        let file: Int32
        do { file = try Self.open(next, O_EXCL) } catch {
            state.rotationProblem = error.description
            return
        }
        // Between the two renames there is no file of that name; a process that ends there goes on from the former.
        let hasRoom = Self.hasRoom(file)
        let isFormer = hasRoom && fsync(state.file) == 0 && rename(path, "\(directory)/\(former)") == 0
        guard isFormer, rename(next, path) == 0 else {
            state.rotationProblem = hasRoom ? String(cString: strerror(errno)) : "there is no room for another file"
            if isFormer { rename("\(directory)/\(former)", path) }
            close(file)
            unlink(next)
            return
        }
        goOn(in: file, &state)
        var entry: JSONObject = ["former": .string(former)]
        let removed = removeOld()
        if !removed.isEmpty { entry["removed"] = .texts(removed) }
        write(Self.entry(AuditChain.rotated, entry, time), &state, time)
    }

    private func goOn(in file: Int32, _ state: inout State) {
        // Gives back what was set aside behind its end.
        ftruncate(state.file, off_t(state.size))
        close(state.file)
        state.file = file
        state.size = 0
        state.reservedTo = 0
        state.rotateAt = Int64(limits.maxBytes)
        state.rotationProblem = nil
    }

    /// - Returns: the names that were removed.
    private func removeOld() -> [String] {
        AuditFiles.former(in: directory).dropLast(limits.keep).filter { unlink("\(directory)/\($0)") == 0 }
    }

    /// Goes on in a new file when this one was moved away, as logrotate does before it sends SIGHUP.
    ///
    /// - Returns: whether that was so.
    /// - Throws: why it goes on in the old one.
    package func reopen() throws(Problem) -> Bool {
        let time = clock()
        return try state.withLock { state throws(Problem) in
            let there = AuditFiles.identity(path)
            if there == AuditFiles.identity(state.file) { return false }
            let (file, said) = (try Self.open(path), "what is written goes on in the file that was moved away")
            guard lseek(file, 0, SEEK_END) == 0 else {
                close(file)
                throw Problem(
                    description: "\(path) is another file and not empty; \(said); remove it and send SIGHUP again")
            }
            guard !state.isTorn, Self.hasRoom(file) else {
                close(file)
                if there == nil { unlink(path) }
                throw Problem(description: "there is no room for another \(path); \(said)")
            }
            // What makes lines durable later knows the new file only.
            guard fsync(state.file) == 0 else {
                let reason = String(cString: strerror(errno))
                close(file)
                if there == nil { unlink(path) }
                throw Problem(description: "the file that was moved away was not synchronised (\(reason)); \(said)")
            }
            fchmod(file, 0o600)
            state.size = Int64(max(0, lseek(state.file, 0, SEEK_END)))
            goOn(in: file, &state)
            write(Self.entry(AuditChain.reopened, [:], time), &state, time)
            return true
        }
    }

    /// The disk took only a part: the next line accounts for it.
    private func fell(short part: [UInt8], _ state: inout State) {
        guard !part.isEmpty else { return }
        // The line feed behind a torn line alone would make it a line of its own.
        if state.isTorn, part == [0x0A], ftruncate(state.file, off_t(state.size - 1)) == 0 {
            state.size -= 1
            return
        }
        // A file that was torn before goes on with a line feed.
        let rest = state.isTorn ? Array(part.dropFirst()) : part
        state.isTorn = true
        // The last may be whole but for its line feed.
        for line in rest.split(separator: 0x0A).map(Array.init) {
            do { try state.chain.check(line) } catch { state.chain.resume(afterTorn: line) }
        }
    }

    private static func entry(_ action: String, _ members: JSONObject, _ time: Timestamp) -> JSONObject {
        var entry = JSONObject(capacity: members.count + 2)
        (entry["time"], entry["action"]) = (.string(time.description), .string(action))
        for (name, value) in members.members { entry[name] = value }
        return entry
    }

    /// Lines that could not be written.
    package var failures: Int { state.withLock { $0.failures } }
    /// Reason why the log goes on in a file that is full; nil when it does not.
    package var rotationProblem: String? { state.withLock { $0.rotationProblem } }
    /// The number and the hash of the last line, to be noted elsewhere.
    package var end: (count: Int64, hash: String) { state.withLock { ($0.chain.count, $0.chain.hash) } }
}

/// Glibc's `open`: inside ``AuditLog`` that name means the log's own function.
private func systemOpen(_ path: String, _ flags: Int32, _ mode: mode_t) -> Int32 { open(path, flags, mode) }
