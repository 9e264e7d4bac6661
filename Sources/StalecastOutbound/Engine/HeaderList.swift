import CCurl

/// Headers of a handle's request. Its memory serves one request after the other.
struct HeaderList {
    private var text: [UInt8] = []
    private var starts: [UInt32] = []
    private var lines = stalecast_headers()

    /// Sets the headers of a handle that is not in use.
    ///
    /// - Throws: ``OutboundFailure`` when memory is short.
    mutating func set(_ request: OutboundRequest, _ easy: UnsafeMutableRawPointer) throws(OutboundFailure) {
        text.removeAll(keepingCapacity: true)
        starts.removeAll(keepingCapacity: true)
        if let shared = request.sharedHeaders {
            text.append(contentsOf: shared.text)
            starts.append(contentsOf: shared.starts)
        }
        for header in request.headers {
            starts.append(UInt32(text.count))
            header.append(to: &text)
        }
        // An empty value takes a header away: no 100-continue, and nothing that libcurl would add for a form.
        add("Expect:\0")
        let hasContentType = request.sharedHeaders?.hasContentType ?? false
        if request.body != nil, !hasContentType, !request.headers.contains(where: \.isContentType) {
            add("Content-Type:\0")
        }
        let before = lines.first
        guard stalecast_headers_set(&lines, text, text.count, starts, starts.count) else {
            throw OutboundFailure(.other, detail: "out of memory")
        }
        if lines.first != before { stalecast_easy_set_pointer(easy, CURLOPT_HTTPHEADER, lines.first) }
    }

    mutating func free() { stalecast_headers_free(&lines) }

    private mutating func add(_ line: StaticString) {
        starts.append(UInt32(text.count))
        text.append(contentsOf: UnsafeBufferPointer(start: line.utf8Start, count: line.utf8CodeUnitCount))
    }
}
