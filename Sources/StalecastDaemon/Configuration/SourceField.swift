import StalecastOutbound
import StalecastSources
import StalecastWire

/// One key of an entry of `sources.scopes`: which kinds have it, how it is read, and the words for it.
struct SourceField: Sendable {
    let kinds: Set<SourceKind>
    /// Name and words. The kind decides which keys must be there, so none is required here.
    let entry: EntryField
    let read: Reader

    /// Way in which the value of a key is read.
    enum Reader: Sendable {
        case scalar(@Sendable (String, inout Configuration.Feed) throws(InvalidValue) -> Void)
        case list(@Sendable ([String], inout Configuration.Feed) throws(InvalidValue) -> Void)
        /// A mapping of names and values.
        case headers
    }

    /// Kinds that are asked over HTTP.
    static let remote: Set<SourceKind> = [.http, .firebase]
    /// Kinds that bring versions from outside.
    static let fed: Set<SourceKind> = [.file, .http, .firebase]
    /// Kinds whose documents may have any shape.
    static let documents: Set<SourceKind> = [.file, .http]

    /// A row whose value is one scalar.
    ///
    /// - Parameter absent: see ``EntryField``.
    init<Value>(
        _ name: String, _ key: any WritableKeyPath<Configuration.Feed, Value> & Sendable, _ kind: OptionKind<Value>,
        for kinds: Set<SourceKind>, or absent: String? = nil, _ meaning: String
    ) {
        self.kinds = kinds
        entry = EntryField.optional(name, kind.form, or: absent, meaning)
        read = .scalar { text, feed throws(InvalidValue) in feed[keyPath: key] = try kind.parse(text) }
    }

    /// A row whose value is nil without the key.
    init<Value>(
        optional name: String, _ key: any WritableKeyPath<Configuration.Feed, Value?> & Sendable,
        _ kind: OptionKind<Value>, for kinds: Set<SourceKind>, or absent: String? = nil, _ meaning: String
    ) {
        self.kinds = kinds
        entry = EntryField.optional(name, kind.form, or: absent, meaning)
        read = .scalar { text, feed throws(InvalidValue) in feed[keyPath: key] = try kind.parse(text) }
    }

    /// A row whose value is a list of files.
    init(
        list name: String, _ key: any WritableKeyPath<Configuration.Feed, [String]> & Sendable,
        for kinds: Set<SourceKind>, _ meaning: String
    ) {
        self.kinds = kinds
        entry = EntryField.optional(name, "list of files", or: nil, meaning)
        read = .list { texts, feed throws(InvalidValue) in
            feed[keyPath: key] = []
            for text in texts { feed[keyPath: key].append(try checkedPath(text)) }
        }
    }

    init(headers name: String, for kinds: Set<SourceKind>, _ meaning: String) {
        self.kinds = kinds
        entry = EntryField.optional(name, "mapping of names and values", or: nil, meaning)
        read = .headers
    }
}

extension OptionKind<String> {
    /// A text that must not be empty.
    static func text(_ form: String) -> OptionKind {
        OptionKind(form: form) { text throws(InvalidValue) in
            if text.isEmpty { throw InvalidValue("it is empty; give it a value or remove the key") }
            if text.utf8.contains(0) { throw InvalidValue("a NUL character is not allowed") }
            return text
        }
    }

    static let sourceURL = OptionKind(form: "http or https URL") { text throws(InvalidValue) in
        do { return try OutboundURL(text).text } catch { throw InvalidValue("the URL \(error)") }
    }

    /// Scheme, host, port and perhaps a path, to which more is appended.
    static let baseURL = OptionKind(form: "http or https URL") { text throws(InvalidValue) in
        _ = try sourceURL.parse(text)
        if text.contains("?") { throw InvalidValue("\"\(text)\" has a query; give only the beginning of the URL") }
        return text.hasSuffix("/") ? String(text.dropLast()) : text
    }

    /// An id or number that becomes part of a path.
    static let originProject = OptionKind(form: "id or number") { text throws(InvalidValue) in
        guard text.isWord(1...128, and: "-_.:") else {
            throw InvalidValue("\"\(text)\" is no project id or number")
        }
        return text
    }
}

extension OptionKind<JSONPointer> {
    static let pointer = OptionKind(form: "JSON pointer, such as /data/version") { text throws(InvalidValue) in
        do { return try JSONPointer(text) } catch { throw InvalidValue("\(error)") }
    } spell: {
        "\($0)"
    }
}

extension OptionKind<Namespace> {
    static let namespace = OptionKind(form: "namespace") { text throws(InvalidValue) in
        do { return try Namespace(text) } catch { throw InvalidValue("\(error)") }
    } spell: {
        "\($0)"
    }
}
