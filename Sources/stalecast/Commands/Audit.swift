import ArgumentParser
import Foundation
import StalecastAccess
import StalecastControl
import StalecastWire

struct Audit: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "audit",
        abstract: "Show or verify the audit log of a data directory.",
        discussion: """
            Every publish, rollback, message, and change of keys, webhooks or configuration is a line of \
            <data>/audit.jsonl, with the hash of the line before, or of a file before it: a full one becomes \
            audit-<number of its last line>.jsonl. Run it as the user that runs the daemon.

            Examples:
              stalecast audit --follow
              stalecast audit --json | jq -r 'select(.outcome == "refused")'
              stalecast audit verify
            """,
        subcommands: [AuditShow.self, AuditVerify.self], defaultSubcommand: AuditShow.self)
}

struct AuditShow: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Show the lines (the default).",
        discussion: """
            Example:
              stalecast audit show --follow
            """)

    @OptionGroup var data: DataOptions
    @OptionGroup var outputOptions: OutputOptions

    @Flag(help: "Go on with what is written from now on.")
    var follow = false

    func run() async throws {
        let output = outputOptions.output
        try await AuditReader.each(in: data.running().path, follow: follow) { line throws(CommandFailure) in
            try output.line(output.isJSON ? String(decoding: line, as: UTF8.self) : Self.text(line, output.palette))
        }
    }

    /// `2026-11-22T10:00:00.000000Z key:4fT0aZ81Qx publishTemplate demo/firebase version=3 …`
    private static func text(_ line: [UInt8], _ palette: Palette) -> String {
        guard let object = JSONValue.ifValid(line)?.object else {
            return palette.red("a line that was cut off: \(String(decoding: line.prefix(60), as: UTF8.self).printable)")
        }
        let heads = ["time", "actor", "action"]
        let rest = object.members.filter { !(heads + ["seq", "previous"]).contains($0.key) }
            .map { "\($0.key)=\(($0.value.string ?? $0.value.text()).printable)" }
        let words = heads.map { object[$0]?.string?.printable ?? "-" }
        return "\(palette.dim(words[0])) \(words[1]) \(palette.bold(words[2])) \(rest.joined(separator: " "))"
    }
}

struct AuditVerify: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Check for changed, removed or added lines, except at the end; prints the first and ends with 1.",
        discussion: """
            That lines written since the daemon's start are gone from the end does not show by itself. A user who may \
            write the files can write all of them anew: keep the hash that is shown at another place, and name it with \
            --expect later. The exit code is also 1 when there is no line at all, and 6 when no log can be read.

            Examples:
              stalecast audit verify
              stalecast audit verify --json | jq -r .hash
            """)

    @OptionGroup var data: DataOptions
    @OptionGroup var outputOptions: OutputOptions

    @Option(help: .value("hash", "Hash that an earlier run showed; one of the lines must have it."))
    var expect: String?

    func validate() throws {
        if let expect, expect.count != 64 || !expect.allSatisfy({ $0.isASCII && $0.isHexDigit }) {
            throw ValidationError("--expect takes a hash as verify shows it: 64 hexadecimal digits")
        }
    }

    func run() async throws {
        var reader = try AuditReader(data.running().path)
        let wanted = expect?.lowercased()
        var (chain, torn, first, isKnown) = (AuditChain(), 0, Int64(1), wanted == nil)
        do {
            while let line = try reader.next() {
                if chain.count == 0, reader.count == 1 { first = try chain.begin(with: line) }
                if try !chain.check(line) { torn += 1 }
                isKnown = isKnown || chain.hash == wanted
            }
            try chain.checkEnd(hasLineFeed: reader.rest.isEmpty)
            if !reader.rest.isEmpty { torn += 1 }
        } catch let fault as AuditChain.Fault {
            throw CommandFailure(.refused, "\(reader.path) is broken: line \(reader.number) \(fault)")
        }
        if chain.count == 0 {
            throw CommandFailure(
                .refused,
                "\(reader.path) has no whole line, and the daemon writes one at each start: it was emptied or cut off")
        }
        if let mark = AuditMark(in: data.running().path),
            let sentence = mark.contradiction(chain, isTorn: torn > 0)
        {
            throw CommandFailure(.refused, "\(reader.path) \(sentence)")
        }
        if !isKnown {
            throw CommandFailure(
                .refused,
                "\(reader.path) has no line with the hash \(wanted ?? ""), nor have those before: it was written anew"
                    + (first > 1 ? ", or that line is one of the \(first - 1) that are gone" : ""))
        }
        let output = outputOptions.output
        if output.isJSON {
            return try output.json([
                "lines": .int(chain.count - first + 1), "firstLine": .int(first), "torn": .int(torn),
                "hash": .string(chain.hash),
            ])
        }
        try output.line("\(chain.count - first + 1) lines are whole; the last has the hash \(chain.hash)")
        if first > 1 {
            output.remark("it begins with line \(first): older files were removed (audit.keep) or moved away")
        }
        if torn > 0 { output.remark("\(torn) were cut off, by the end of the process or a full disk") }
    }
}

/// Lines of a log that grows, through all its files, oldest first.
struct AuditReader {
    private let directory: String
    private var file: FileHandle
    private var identity: FileIdentity?
    /// Files that are behind us, whatever they are called by now.
    private var seen: Set<FileIdentity> = []
    /// The one that is read.
    private(set) var path: String
    /// Number of the line that was read last, in its file; and lines in all.
    private(set) var (number, count) = (0, 0)
    /// Bytes after the last line feed.
    private(set) var rest: [UInt8] = []
    private var ready: [[UInt8]] = []

    init(_ directory: String) throws(CommandFailure) {
        self.directory = directory
        path = "\(directory)/\(AuditFiles.all(in: directory).first ?? AuditFiles.current)"
        guard let file = try Self.opened(path) else { throw Self.unreadable(path, "no such file") }
        self.file = file
        identity = AuditFiles.identity(file.fileDescriptor)
    }

    /// nil when it is not there.
    private static func opened(_ path: String) throws(CommandFailure) -> FileHandle? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        if descriptor >= 0 { return FileHandle(fileDescriptor: descriptor, closeOnDealloc: true) }
        if errno == ENOENT { return nil }
        throw unreadable(path, String(cString: strerror(errno)))
    }

    /// Failure for a path that cannot be read. Its exit code is not that of a broken chain: a script can tell them
    /// apart.
    private static func unreadable(_ path: String, _ reason: String) -> CommandFailure {
        CommandFailure(
            .notFound, "\(path) cannot be read (\(reason))",
            advice: "The daemon begins it at its start; name its directory with --data, and run this as its user.")
    }

    /// Takes every line of a directory's log, and goes on with what is written from now on where `follow` says so; the
    /// end of the process is then the end of it.
    static func each(
        in directory: String, follow: Bool, _ take: ([UInt8]) throws(CommandFailure) -> Void
    ) async throws {
        var reader = try AuditReader(directory)
        repeat {
            while let line = try reader.next() { try take(line) }
            if follow { try await Task.sleep(for: .milliseconds(300)) }
        } while follow
    }

    /// The next whole line; nil at the end.
    mutating func next() throws(CommandFailure) -> [UInt8]? {
        while ready.isEmpty {
            if try !fill(), try !goOn() { return nil }
        }
        number += 1
        count += 1
        return ready.removeLast()
    }

    /// - Returns: whether there was more in this file.
    private mutating func fill() throws(CommandFailure) -> Bool {
        let piece: Data
        do { piece = try file.read(upToCount: 1 << 20) ?? Data() } catch { throw Self.unreadable(path, error.reason) }
        if piece.isEmpty { return false }
        var lines = (rest + piece).split(separator: 0x0A, omittingEmptySubsequences: false).map(Array.init)
        rest = lines.removeLast()
        ready = lines.reversed()
        return true
    }

    /// - Returns: whether another file follows, or more came to this one before that began.
    private mutating func goOn() throws(CommandFailure) -> Bool {
        if let identity { seen.insert(identity) }
        let paths = AuditFiles.all(in: directory).map { "\(directory)/\($0)" }
        let following = paths.lazy.compactMap { path in AuditFiles.identity(path).map { (path, $0) } }
            .first { !seen.contains($0.1) }
        guard let (path, identity) = following else { return false }
        // Lines may have come to this file after it was read to its end and before it was renamed.
        if try fill() { return true }
        if !rest.isEmpty {
            // Only the newest may end in the middle of a line.
            (ready, rest) = ([rest], [])
            return true
        }
        guard let file = try Self.opened(path) else { return false }
        (self.file, self.identity, self.path, number) = (file, identity, path, 0)
        return true
    }
}
