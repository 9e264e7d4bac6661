/// Forms in which clients spell ETags. Ours have no quotes, as Firebase's; proxies and HTTP libraries add quotes and
/// `W/`.
package enum ETagSpelling {
    /// Tag without `W/`, quotes and blanks around; empty for an empty tag.
    package static func bare<Text: StringProtocol>(_ text: Text) -> Text.SubSequence {
        var rest = text.trimmingBlanks()
        if rest.hasPrefix("W/") { rest = rest.dropFirst(2) }
        if rest.utf8.count >= 2, rest.first == "\"", rest.last == "\"" { rest = rest.dropFirst().dropLast() }
        return rest
    }

    /// Whether `If-None-Match` names `etag`. `*` is "nothing" to Firebase.
    package static func names(_ etag: String, in ifNoneMatch: String?) -> Bool {
        guard let ifNoneMatch else { return false }
        return ifNoneMatch == etag || bare(ifNoneMatch) == etag[...]
    }
}

extension StringProtocol {
    /// Text without blanks and tabs at either end.
    @inlinable
    package func trimmingBlanks() -> SubSequence {
        let bytes = utf8
        guard let start = bytes.firstIndex(where: { $0 != 0x20 && $0 != 0x09 }) else { return self[endIndex...] }
        var (end, index) = (start, start)
        while index != bytes.endIndex {
            let isBlank = bytes[index] == 0x20 || bytes[index] == 0x09
            index = bytes.index(after: index)
            if !isBlank { end = index }
        }
        return self[start..<end]
    }
}
