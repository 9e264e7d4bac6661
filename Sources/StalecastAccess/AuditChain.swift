import Crypto
package import StalecastWire

/// The chain of an audit log: lines of JSON, each with its number and the SHA-256 of the line before. A writer that
/// changes, removes or adds a line breaks it, unless all that follows is rewritten: compare the newest hash with one
/// that was noted elsewhere.
///
/// A line that was cut off in the middle, by the end of the process or a full disk, stays as it is. The next whole line
/// says so: its action is ``recovered``, and its hash is that of what was before and the rest.
package struct AuditChain: Sendable {
    /// Lines so far.
    package private(set) var count: Int64 = 0
    /// Hash of the last line, in hexadecimal; zeros before the first.
    package private(set) var hash = String(repeating: "0", count: 64)
    /// The line before is only the beginning of one.
    private var isTorn = false

    package static let recovered = "log.recovered"
    /// Action of the first line of a new file that continues a full one.
    package static let rotated = "log.rotated"
    /// Action of the first line of a new file that continues a file which was moved away.
    package static let reopened = "log.reopened"

    /// Action of the first line after lines that were found missing.
    package static let lost = "log.lost"

    package init() {}

    /// Continues a chain whose last line is known by its number and hash alone.
    package init(after count: Int64, _ hash: String) { (self.count, self.hash) = (count, hash) }

    /// Place where a log is broken.
    package struct Fault: Error, CustomStringConvertible {
        package let description: String

        package init(description: String) { self.description = description }
    }

    /// The next line, without its line feed.
    package mutating func append(_ entry: JSONObject) -> [UInt8] {
        var line = JSONObject(capacity: entry.count + 2)
        line["seq"] = .int(count + 1)
        for (name, value) in entry.members { line[name] = value }
        line["previous"] = .string(hash)
        let bytes = JSONValue.object(line).encoded()
        take(bytes)
        return bytes
    }

    /// Continues after the beginning of a line that was cut off.
    package mutating func resume(afterTorn rest: [UInt8]) {
        // `rest` is empty when only the line feed of the next line was written.
        if !rest.isEmpty { hash = Self.hash(of: Array(hash.utf8) + rest) }
        isTorn = true
    }

    /// Continues after a log's last whole line.
    ///
    /// - Throws: when `line` is not a line of an audit log.
    package mutating func resume(after line: [UInt8]) throws(Fault) {
        // Up to what JSON's numbers are exact to: a damaged file must not make the next number overflow.
        guard let json = JSONValue.ifValid(line), let number = json["seq"]?.int64,
            (1..<1 << 53).contains(number)
        else {
            throw Fault(description: "is no line of an audit log")
        }
        count = number - 1
        take(line)
    }

    /// Begins with a file's first line where the files before it are gone.
    ///
    /// - Returns: the number of that line; 1 where nothing is gone.
    /// - Throws: when no file begins so.
    package mutating func begin(with line: [UInt8]) throws(Fault) -> Int64 {
        guard let json = JSONValue.ifValid(line), let number = json["seq"]?.int64, number > 1 else { return 1 }
        if json["action"]?.string == Self.lost {
            throw Fault(
                description: "says that the \(number - 1) lines before it are gone: deleted, replaced or moved away")
        }
        guard number < 1 << 53, let action = json["action"]?.string, [Self.rotated, Self.reopened].contains(action),
            let previous = json["previous"]?.string
        else { throw Fault(description: "has number \(number) where 1 is due") }
        count = number - 1
        hash = previous
        return number
    }

    /// Checks the next line of a log.
    ///
    /// - Parameter isLast: nothing follows, not even a line feed; then it may be torn.
    /// - Returns: false for a line that is torn.
    @discardableResult
    package mutating func check(_ line: [UInt8], isLast: Bool = false) throws(Fault) -> Bool {
        guard let json = JSONValue.ifValid(line), json.object != nil else {
            resume(afterTorn: line)
            return false
        }
        if isTorn, json["action"]?.string != Self.recovered {
            throw Fault(description: "follows a line that is no JSON, and does not say why")
        }
        guard json["seq"]?.int64 == count + 1 else {
            throw Fault(description: "has number \(json["seq"]?.int64 ?? 0) where \(count + 1) is due")
        }
        guard json["previous"]?.string == hash else {
            throw Fault(description: "does not continue the line before: one of the two was changed")
        }
        take(line)
        return true
    }

    /// - Throws: when the log ends in a line feed after a line that is no JSON.
    package func checkEnd(hasLineFeed: Bool) throws(Fault) {
        if isTorn, hasLineFeed { throw Fault(description: "is no JSON") }
    }

    private mutating func take(_ line: [UInt8]) {
        count += 1
        hash = Self.hash(of: line)
        isTorn = false
    }

    private static func hash(of line: [UInt8]) -> String {
        // 32 bytes, as SecretDigest writes them.
        SecretDigest(bytes: Array(SHA256.hash(data: line)))?.hexadecimal ?? ""
    }
}
