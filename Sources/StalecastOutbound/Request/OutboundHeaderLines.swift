/// Header lines that many requests share, made once in the form that libcurl takes.
///
/// libcurl compares each element of its list with a dozen names, for each request. So a line that it does not look for
/// stands in one element with the line before it, and leaves together with it.
package final class OutboundHeaderLines: Sendable {
    package let headers: [OutboundHeader]
    /// Elements one behind the other, each closed by a zero.
    let text: [UInt8]
    /// Index of each element's first byte.
    let starts: [UInt32]
    let hasContentType: Bool

    package init(_ headers: [OutboundHeader]) {
        var text: [UInt8] = []
        var starts: [UInt32] = []
        for (index, header) in headers.enumerated() {
            // A line without a value is no element that another could follow.
            if index > 0, header.isUnknownToLibcurl, !headers[index - 1].value.isEmpty {
                text.removeLast()
                text.append(contentsOf: "\r\n".utf8)
            } else {
                starts.append(UInt32(text.count))
            }
            header.append(to: &text)
        }
        self.headers = headers
        self.text = text
        self.starts = starts
        hasContentType = headers.contains(where: \.isContentType)
    }
}

extension OutboundHeader {
    var isContentType: Bool { name.utf8.count == 12 && name.lowercased() == "content-type" }

    /// Whether libcurl sends the header as it is, wherever it stands, and adds none of its own in its place. The user
    /// agent is among them because no request sets libcurl's option for it.
    fileprivate var isUnknownToLibcurl: Bool {
        let name = name.lowercased()
        return !value.isEmpty && (name == "user-agent" || name.hasPrefix("webhook-") || name.hasPrefix("ce-"))
    }

    /// Appends the line as libcurl takes it, closed by a zero. A semicolon sends a header without a value.
    func append(to text: inout [UInt8]) {
        text.append(contentsOf: name.utf8)
        text.append(contentsOf: (value.isEmpty ? ";" : ": ").utf8)
        text.append(contentsOf: value.utf8)
        text.append(0)
    }
}
