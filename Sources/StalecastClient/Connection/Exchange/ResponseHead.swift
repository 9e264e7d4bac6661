package import Foundation

/// Status and headers of an answer.
package struct ResponseHead: Sendable, Hashable {
    package var status: Int
    /// Header fields by lower-case name; repeated ones are joined with `, `.
    package var headers: [String: String]

    package init(status: Int, headers: [String: String] = [:]) {
        self.status = status
        self.headers = headers
    }

    /// The media type in lower case without parameters; empty when there is none.
    package var mediaType: String {
        let type = (headers["content-type"] ?? "").prefix { $0 != ";" }
        return type.trimmingCharacters(in: .whitespaces).lowercased()
    }

    /// Wait that `Retry-After` asks for, as seconds from now; nil when it is missing or cannot be understood. At most
    /// an hour.
    package func retryAfter(now: Date) -> TimeInterval? {
        guard let text = headers["retry-after"]?.trimmingCharacters(in: .whitespaces), !text.isEmpty else { return nil }
        if text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) { return min(TimeInterval(text) ?? 3600, 3600) }
        let base = headers["date"].flatMap(Self.date) ?? now
        return Self.date(text).map { min(max(0, $0.timeIntervalSince(base)), 3600) }
    }

    private static func date(_ text: String) -> Date? {
        let format = DateFormatter()
        format.locale = Locale(identifier: "en_US_POSIX")
        format.timeZone = TimeZone(secondsFromGMT: 0)
        format.dateFormat = "EEE, dd MMM yyyy HH:mm:ss zzz"
        return format.date(from: text)
    }
}

/// Makes an answer's head of its lines, one at a time, as HTTP/1 writes them. Interim answers (100) are passed over.
package struct ResponseHeadReader: Sendable {
    package enum Step: Sendable, Hashable {
        case more
        case head(ResponseHead)
        /// The interim answers and the head have more than ``maxBytes`` together.
        case tooLong
    }

    /// The longest head, in bytes.
    package static let maxBytes = 32 << 10

    private var byteCount = 0
    /// 0 for what is no HTTP.
    private var status = 0
    /// Fields by lower-case name, in order.
    private var fields: [String: [String]] = [:]

    package init() {}

    /// Takes one line with its end; the empty one ends the head.
    package mutating func take(_ bytes: UnsafeRawBufferPointer) -> Step {
        byteCount += bytes.count
        guard byteCount <= Self.maxBytes else { return .tooLong }
        let line = String(decoding: bytes, as: UTF8.self).trimmingCharacters(in: .newlines)
        // Interim answers have heads of their own before the one that counts (RFC 9110 §15.2).
        if line.hasPrefix("HTTP/") {
            let words = line.split(separator: " ", maxSplits: 2)
            (status, fields) = (words.count > 1 ? Int(words[1]) ?? 0 : 0, [:])
        } else if let colon = line.firstIndex(of: ":") {
            let value = line[line.index(after: colon)...].trimmingCharacters(in: .whitespaces)
            fields[line[..<colon].lowercased(), default: []].append(value)
        }
        guard line.isEmpty, status >= 200 else { return .more }
        return .head(ResponseHead(status: status, headers: fields.mapValues { $0.joined(separator: ", ") }))
    }
}
