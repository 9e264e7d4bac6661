/// Codings of an answer's body that a client takes.
enum ContentCoding {
    /// Whether the value of `Accept-Encoding` admits gzip (RFC 9110 §12.5.3). A weight of 0 forbids it.
    static func admitsGzip(_ value: String) -> Bool {
        if value == "gzip" { return true }
        return value.utf8.split(separator: UInt8(ascii: ",")).contains { item in
            let item = item.filter { $0 != 0x20 && $0 != 0x09 }
            guard item.prefix(4).map({ $0 | 0x20 }).elementsEqual("gzip".utf8) else { return false }
            let weight = item.dropFirst(4)
            return weight.isEmpty || weight.first == UInt8(ascii: ";") && weight.contains { (0x31...0x39).contains($0) }
        }
    }
}
