/// Header lines that many requests share, made once in the form that libcurl takes.
package final class OutboundHeaderLines: Sendable {
    package let headers: [OutboundHeader]
    /// Lines one behind the other, each closed by a zero.
    let text: [UInt8]
    /// Index of each line's first byte.
    let starts: [UInt32]
    let hasContentType: Bool

    package init(_ headers: [OutboundHeader]) {
        var text: [UInt8] = []
        var starts: [UInt32] = []
        for header in headers {
            starts.append(UInt32(text.count))
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

    /// Appends the line as libcurl takes it, closed by a zero. A semicolon sends a header without a value.
    func append(to text: inout [UInt8]) {
        text.append(contentsOf: name.utf8)
        text.append(contentsOf: (value.isEmpty ? ";" : ": ").utf8)
        text.append(contentsOf: value.utf8)
        text.append(0)
    }
}
