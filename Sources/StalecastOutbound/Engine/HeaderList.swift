import CCurl

/// Headers of a handle's request. Its memory serves one request after the other.
struct HeaderList {
    private let text: HeaderText
    private var lines = stalecast_headers()

    init(_ text: HeaderText) { self.text = text }

    /// Sets the headers of a handle that is not in use.
    ///
    /// - Throws: ``OutboundFailure`` when memory is short.
    mutating func set(_ request: OutboundRequest, _ easy: UnsafeMutableRawPointer) throws(OutboundFailure) {
        let before = lines.first
        guard text.elements.take(request, into: &lines) else { throw OutboundFailure(.other, detail: "out of memory") }
        if lines.first != before { stalecast_easy_set_pointer(easy, CURLOPT_HTTPHEADER, lines.first) }
    }

    mutating func free() { stalecast_headers_free(&lines) }
}

/// Memory in which the headers of a request are put together. All handles of a pool use one, which stays in the
/// processor's cache as memory of thousands of them would not.
final class HeaderText {
    fileprivate var elements = Elements()

    fileprivate struct Elements {
        private var text: [UInt8] = []
        private var starts: [UInt32] = []
        /// Bytes above which `Expect` is taken away. libcurl sends it with bodies from 1 MiB; other versions may sooner.
        private static let longBody = 64 << 10

        /// False when memory is short.
        mutating func take(_ request: OutboundRequest, into lines: inout stalecast_headers) -> Bool {
            text.removeAll(keepingCapacity: true)
            starts.removeAll(keepingCapacity: true)
            if let shared = request.sharedHeaders {
                text.append(contentsOf: shared.text)
                starts.append(contentsOf: shared.starts)
            }
            for header in request.target.terms.headers {
                starts.append(UInt32(text.count))
                header.append(to: &text)
            }
            if !request.signatureLines.isEmpty {
                starts.append(UInt32(text.count))
                text.append(contentsOf: request.signatureLines)
                text.append(0)
            }
            // An empty value takes a header away: no 100-continue for a long body, and nothing that libcurl would add for a
            // form. Without a body it makes sure that there is a list.
            let length = request.body?.count
            if length.map({ $0 > Self.longBody }) ?? true { add("Expect:\0") }
            let hasContentType = request.sharedHeaders?.hasContentType ?? false
            if length != nil, !hasContentType, !request.target.hasContentType { add("Content-Type:\0") }
            return stalecast_headers_set(&lines, text, text.count, starts, starts.count)
        }

        private mutating func add(_ line: StaticString) {
            starts.append(UInt32(text.count))
            text.append(contentsOf: UnsafeBufferPointer(start: line.utf8Start, count: line.utf8CodeUnitCount))
        }
    }
}
