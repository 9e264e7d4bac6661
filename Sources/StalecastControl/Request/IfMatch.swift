package import StalecastStore

extension Publish.Precondition {
    /// Reads `If-Match`: `*`, or an ETag. Firebase's are unquoted; quotes and `W/`, which proxies add, are taken off.
    ///
    /// - Throws: 400 when the header is missing or empty, in Google's words.
    package init(ifMatch header: String?) throws(GoogleError) {
        var text = (header ?? "").trimmingBlanks()
        if text.hasPrefix("W/") { text.removeFirst(2) }
        if text.count >= 2, text.first == "\"", text.last == "\"" { text = String(text.dropFirst().dropLast()) }
        guard !text.isEmpty else {
            throw .invalidArgument("[VERSION_MISMATCH]: No If-Match header found on UpdateRemoteConfig call")
        }
        self = text == "*" ? .any : .etag(text)
    }
}
