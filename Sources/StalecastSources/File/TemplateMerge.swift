import StalecastWire

/// Makes one template document of several files': conditions in the order of the files, names of parameters and groups
/// only once.
struct TemplateMerge {
    private(set) var object = JSONObject()
    /// File that brought each member, to name it when another brings it too.
    private var origins: [String: String] = [:]

    var document: JSONValue { .object(object) }

    /// - Throws: ``OriginProblem`` of reason `invalid_content`.
    mutating func add(_ document: JSONValue, from file: String) throws(OriginProblem) {
        guard let members = document.object else {
            throw OriginProblem(.invalidContent, "the document is \(document.kind); an object is expected")
        }
        for name in members.keys {
            guard let value = members[name] else { continue }
            switch value {
            case .array(let elements): object[name] = .array((object[name]?.array ?? []) + elements)
            case .object(let values) where name != "version": try merge(values, into: name, file)
            default: try place(value, name, file)
            }
        }
    }

    private mutating func merge(_ values: JSONObject, into name: String, _ file: String) throws(OriginProblem) {
        var merged = object[name]?.object ?? JSONObject()
        for key in values.keys {
            try claim("\(name).\(key)", file)
            merged[key] = values[key]
        }
        object[name] = .object(merged)
    }

    /// Places a member that describes a document as a whole: the last file that has it wins.
    private mutating func place(_ value: JSONValue, _ name: String, _ file: String) throws(OriginProblem) {
        if name != "version", name != "etag" { try claim(name, file) }
        object[name] = value
    }

    private mutating func claim(_ name: String, _ file: String) throws(OriginProblem) {
        if let other = origins.updateValue(file, forKey: name) {
            throw OriginProblem(.invalidContent, "\(name) is in \(other) already; leave it in one of the files")
        }
    }
}
