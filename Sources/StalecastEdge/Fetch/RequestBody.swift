package import StalecastHTTP
package import StalecastWire

extension RequestBody {
    /// The body of a POST as Firebase's clients send it.
    ///
    /// - Parameter cap: the most bytes after inflation.
    /// - Throws: 413 beyond `cap`, 400 for damaged gzip and for what is no object.
    package static func object(_ body: [UInt8], cap: Int) throws(GoogleError) -> JSONObject {
        try object(plain: try inflated(body, cap: cap))
    }

    /// Reads a body that is inflated, as ``object(_:cap:)`` does.
    static func object(plain: [UInt8]) throws(GoogleError) -> JSONObject {
        do { return try LenientJSON.object(plain) } catch {
            throw .invalidArgument("Invalid JSON payload received. \(error.description)")
        }
    }
}
