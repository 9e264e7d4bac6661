package import StalecastHTTP
package import StalecastStore
import StalecastWire

extension Publish.Precondition {
    /// Reads `If-Match`: `*`, or an ETag as ``ETagSpelling`` reads it.
    ///
    /// - Throws: 400 when the header is missing or empty, in Google's words.
    package init(ifMatch header: String?) throws(GoogleError) {
        // The usual spelling; others are read with more effort.
        if header == "*" {
            self = .any
            return
        }
        let tag = ETagSpelling.bare(header ?? "")
        guard !tag.isEmpty else {
            throw .invalidArgument("[VERSION_MISMATCH]: No If-Match header found on UpdateRemoteConfig call")
        }
        self = tag == "*" ? .any : .etag(String(tag))
    }
}
