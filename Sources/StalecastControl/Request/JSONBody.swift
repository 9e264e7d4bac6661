package import StalecastHTTP
package import StalecastWire

/// A request's body as JSON, refused before it is parsed when it would take far more memory than it has bytes: 8 MB of
/// `1,1,1` parsed are 300 MB, and gzip makes them 8 KB on the wire.
package enum JSONBody {
    /// Brackets, braces, colons and commas outside strings. A template has four for each conditional value: 2,000
    /// parameters with 50 each and 500 conditions have 428,000 (43 MB and 0.12 s of CPU to parse). The worst that passes,
    /// 600,000 in objects of one member, takes 57 MB and 0.1 s.
    package static let maxStructure = 600_000

    /// - Throws: 400 for a text that is not JSON, or that has too much structure.
    package static func parse(_ body: [UInt8]) throws(GoogleError) -> JSONValue {
        guard structure(of: body) <= maxStructure else {
            throw .invalidArgument(
                "The body has more than \(maxStructure) brackets and commas.")
        }
        do { return try JSONValue.parse(body) } catch {
            throw .invalidArgument("The body is not JSON: \(error.description).")
        }
    }

    private static func structure(of body: [UInt8]) -> Int {
        var count = 0
        var isInString = false
        var isEscaped = false
        for byte in body {
            switch byte {
            case _ where isEscaped: isEscaped = false
            case UInt8(ascii: "\\"): isEscaped = isInString
            case UInt8(ascii: "\""): isInString.toggle()
            case UInt8(ascii: "["), UInt8(ascii: "{"), UInt8(ascii: ","), UInt8(ascii: ":"):
                if !isInString { count += 1 }
            default: break
            }
        }
        return count
    }
}
