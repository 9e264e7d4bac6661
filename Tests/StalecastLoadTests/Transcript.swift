import StalecastLoad

/// Parts of what Edge writes.
enum Transcript {
    static let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    static let beginning = "retry: 3211\n: stalecast\n\n"
    static let synced = "event: synced\nid: 7c1k.42\ndata: {\"cursor\":\"7c1k.42\"}\n\n"

    static func stale(_ version: Int) -> String {
        """
        id: 7c1k.\(version)
        data: {"CONFIG_STATE":"STALE","topic":"PUSH_RC","latestTemplateVersionNumber":"\(version)",\
        "sinceTemplateVersionNumber":"\(version + 900)","updateType":"INCREMENTAL_UPDATE"}


        """
    }

    static func chunk(_ payload: String) -> String {
        "\(String(payload.utf8.count, radix: 16))\r\n\(payload)\r\n"
    }

    /// Payload in chunks of `size` bytes.
    static func rechunked(_ payload: String, size: Int) -> String {
        let bytes = Array(payload.utf8)
        return stride(from: 0, to: bytes.count, by: size)
            .map { chunk(String(decoding: bytes[$0..<min($0 + size, bytes.count)], as: UTF8.self)) }.joined()
    }
}

extension String {
    /// Hands the text over in two parts for every place to cut it, each time to `body` anew.
    func cutEverywhere(_ body: ([[UInt8]]) throws -> Void) rethrows {
        let bytes = Array(utf8)
        for cut in 0...bytes.count { try body([Array(bytes[..<cut]), Array(bytes[cut...])]) }
    }

    /// One array per byte.
    var singleBytes: [[UInt8]] { utf8.map { [$0] } }
}

extension EventScanner {
    /// A scanner that has taken `parts`.
    static func after(_ parts: [[UInt8]]) -> EventScanner {
        var scanner = EventScanner()
        for part in parts { part.withUnsafeBytes { scanner.scan($0) } }
        return scanner
    }

    static func after(_ text: String) -> EventScanner { after([Array(text.utf8)]) }
}
