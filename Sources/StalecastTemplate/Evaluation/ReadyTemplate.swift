import StalecastWire

/// A template made ready for fetches of one version. Its conditions are compiled; each name, and each value that some
/// instance may get, is written and hashed once, and an answer joins them. This takes milliseconds for a large template,
/// so it is done before the version's commit. A class, so that a version carries it with one reference count.
package final class ReadyTemplate: Sendable {
    package let compiled: CompiledTemplate
    /// All pieces, one after the other.
    package let bytes: [UInt8]
    /// Pieces of ``CompiledTemplate/keys`` and of ``CompiledTemplate/texts``, in their order.
    package let keys: [Piece]
    package let texts: [Piece]

    /// A name with its colon, or a value, as JSON.
    package struct Piece: Sendable {
        package let range: Range<Int>
        package let hash: ContentHash
    }

    package convenience init(_ template: Template, kind: TemplateKind) {
        self.init(CompiledTemplate(template, kind: kind))
    }

    package init(_ template: CompiledTemplate) {
        var bytes: [UInt8] = []
        func piece(_ text: String, _ end: String) -> Piece {
            let start = bytes.count
            let json = JSONValue.string(text).text(JSONStyle(asciiOnly: false)) + end
            bytes.append(contentsOf: json.utf8)
            return Piece(range: start..<bytes.count, hash: ContentHash(json))
        }
        compiled = template
        keys = template.keys.map { piece($0, ":") }
        texts = template.texts.map { piece($0, "") }
        self.bytes = bytes
    }
}
