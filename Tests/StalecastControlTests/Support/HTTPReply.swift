import StalecastWire

/// An HTTP answer taken apart, strictly enough that a malformed one fails a test.
struct HTTPReply: Sendable {
    let status: Int
    /// Header fields by lower-case name.
    let headers: [String: String]
    let body: [UInt8]

    var text: String { String(decoding: body, as: UTF8.self) }
    var json: JSONValue { get throws { try JSONValue.parse(body) } }
    var errorStatus: String? { get throws { try json["error"]?["status"]?.string } }
    var message: String { get throws { try json["error"]?["message"]?.string ?? "" } }

    /// Every complete answer in `bytes`; all have a `Content-Length`.
    static func all(in bytes: [UInt8], isHead: Bool = false) -> [HTTPReply] {
        var replies: [HTTPReply] = []
        var rest = bytes[...]
        while let end = rest.firstRange(of: Array("\r\n\r\n".utf8)) {
            let lines = String(decoding: rest[..<end.lowerBound], as: UTF8.self).components("\r\n")
            var headers: [String: String] = [:]
            for line in lines.dropFirst() {
                let parts = line.split(separator: ":", maxSplits: 1)
                headers[parts[0].lowercased()] = parts[1].trimmed
            }
            guard let status = Int(lines[0].split(separator: " ")[1]) else { return replies }
            let length = isHead || status < 200 || status == 204 ? 0 : Int(headers["content-length"] ?? "") ?? -1
            guard length >= 0, rest.endIndex - end.upperBound >= length else { return replies }
            let body = rest[end.upperBound..<end.upperBound + length]
            replies.append(HTTPReply(status: status, headers: headers, body: Array(body)))
            rest = rest[(end.upperBound + length)...]
        }
        return replies
    }
}

extension String {
    fileprivate func components(_ separator: String) -> [Substring] { split(separator: separator) }
}

extension Substring {
    fileprivate var trimmed: String { first == " " ? String(dropFirst()) : String(self) }
}
