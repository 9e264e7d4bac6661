package import StalecastTemplate
package import StalecastWire

/// Content of an origin's document: a template, and its version where the origin has one.
package struct OriginContent: Sendable, Hashable {
    package let template: Template
    /// nil when the origin has no versions that count.
    package let version: VersionNumber?

    package init(template: Template, version: VersionNumber?) {
        self.template = template
        self.version = version
    }
}

/// Rules for reading an origin's document.
package struct ContentReading: Sendable, Hashable {
    /// Default ``Format/auto``.
    package var format = Format.auto
    /// Place of the template. Default: the whole document.
    package var content = JSONPointer.whole
    /// Place of the version, an integer as number or text; nil when there is none.
    package var version: JSONPointer?
    /// Default ``Shape/template``.
    package var shape = Shape.template
    /// Whether values that break their JSON Schema are refused. False where clients read the origin: they have the version.
    package var checksSchemas = true

    package init() {}

    /// Raw values are those of the configuration.
    package enum Format: String, Sendable, Hashable, CaseIterable {
        /// Format by `Content-Type`, else by the first character.
        case auto, json, yaml
    }

    /// Raw values are those of the configuration.
    package enum Shape: String, Sendable, Hashable, CaseIterable {
        /// A remote config template: `parameters`, `conditions`, `parameterGroups`.
        case template
        /// A plain map of values, or a list of maps of which earlier ones win (Spring's property sources).
        case values
    }

    /// - Parameters:
    ///   - body: JSON or YAML, gzip inflated already.
    ///   - contentType: as the origin sent it.
    /// - Throws: ``OriginProblem`` of reason `invalid_content`.
    package func read(
        _ body: [UInt8], contentType: String?, kind: TemplateKind
    ) throws(OriginProblem) -> OriginContent {
        let document = try document(body, contentType)
        let template = try template(try part(of: document), kind)
        return OriginContent(template: template, version: try version(in: document))
    }

    /// Part of the document at ``content``.
    func part(of document: JSONValue) throws(OriginProblem) -> JSONValue {
        guard let content = content.value(in: document) else {
            throw invalid("there is nothing at \(self.content) in the document")
        }
        return content
    }

    func document(_ body: [UInt8], _ contentType: String?) throws(OriginProblem) -> JSONValue {
        try checkForm(body, contentType)
        if isJSON(body, contentType) {
            do { return try JSONValue.parse(body) } catch {
                throw invalid("the document is not JSON: \(error.description)")
            }
        }
        do { return try YAMLContent.parse(body) } catch {
            throw invalid("the document is not YAML: \(error.description)")
        }
    }

    /// Names what is commonly there instead of a document.
    private func checkForm(_ body: [UInt8], _ contentType: String?) throws(OriginProblem) {
        if body.starts(with: [0x1F, 0x8B]) {
            throw invalid("the document is compressed (gzip); it must be served and stored as plain text")
        }
        let type = EventReader.mediaType(contentType)
        if type == "text/html" || type == "application/xhtml+xml" {
            throw invalid("the answer is \(type), not a template: a login or error page, or a wrong url")
        }
    }

    private func isJSON(_ body: [UInt8], _ contentType: String?) -> Bool {
        switch format {
        case .json: return true
        case .yaml: return false
        case .auto:
            let type = EventReader.mediaType(contentType)
            if EventReader.isJSON(type) { return true }
            if type.contains("yaml") { return false }
            // Blanks and a byte order mark may stand before the document.
            let first = body.drop { $0 <= 0x20 || [0xEF, 0xBB, 0xBF].contains($0) }.first
            return first == UInt8(ascii: "{") || first == UInt8(ascii: "[")
        }
    }

    func template(_ content: JSONValue, _ kind: TemplateKind) throws(OriginProblem) -> Template {
        do {
            let document = shape == .values ? try ValueMap.template(from: content) : content
            return try Template(validating: document, kind: kind, limits: checksSchemas ? .firebase : .withoutSchemas)
        } catch let error as InvalidValue {
            throw invalid(error.description)
        } catch let error as TemplateProblems {
            throw invalid("the template is not valid: \(error.message)")
        } catch {
            throw invalid("\(error)")
        }
    }

    private func version(in document: JSONValue) throws(OriginProblem) -> VersionNumber? {
        guard let pointer = version else { return nil }
        guard let value = pointer.value(in: document) else { throw invalid("there is no version at \(pointer)") }
        let number = value.int64
        // A number beyond 2^53 gets the sentence about exactness.
        let isHuge = number == nil && Double(value.string ?? value.text()) ?? 0 > 9e15
        guard isHuge || number ?? 0 > 0 else {
            throw invalid(
                "the version at \(pointer) is \(value.kind) that is no positive integer; leave versionPointer out "
                    + "to have versions counted here")
        }
        guard let number, let version = VersionNumber(exactly: number) else {
            throw invalid(
                "the version at \(pointer) is \(value.text().prefix(40)), more than 2^53, which many clients cannot "
                    + "read exactly; leave versionPointer out to have versions counted here")
        }
        return version
    }

    private func invalid(_ sentence: String) -> OriginProblem { OriginProblem(.invalidContent, sentence) }
}
