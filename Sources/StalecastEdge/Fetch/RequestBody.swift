package import StalecastWire

/// The body of a POST as Firebase's clients send it.
package enum RequestBody {
    /// What the bytes say, inflated when they begin as gzip does. `Content-Encoding` is not looked at: the JS SDK
    /// declares gzip and sends plain text.
    ///
    /// - Parameter cap: the most bytes after inflation.
    /// - Throws: 413 beyond `cap`, 400 for damaged gzip and for what is no object.
    package static func object(_ body: [UInt8], cap: Int) throws(Refusal) -> JSONObject {
        let plain = try inflated(body, cap: cap)
        do { return try LenientJSON.object(plain) } catch {
            throw .badRequest("Invalid JSON payload received. \(error.description)")
        }
    }

    private static func inflated(_ body: [UInt8], cap: Int) throws(Refusal) -> [UInt8] {
        guard Inflater.recognises(body) else { return body }
        var inflater = Inflater(cap: cap)
        do throws(Inflater.Failure) {
            try inflater.feed(body)
            return try inflater.finish()
        } catch {
            switch error {
            case .tooLarge: throw Refusal(status: 413, sentence: "the body is larger than \(cap) bytes inflated")
            case .damaged: throw .badRequest("the body begins as gzip but cannot be inflated")
            }
        }
    }
}
