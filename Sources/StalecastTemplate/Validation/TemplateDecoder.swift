import StalecastWire

/// Reads the shape of a template: which members there are and of which JSON type. Collects problems instead of
/// stopping, and reads past each of them.
struct TemplateDecoder {
    var problems = TemplateProblems()

    mutating func template(_ json: JSONValue) -> Template {
        guard let object = object(json, at: .root) else { return .empty }
        let members = members(
            of: object, known: ["conditions", "parameters", "parameterGroups", "version", "etag"], at: .root)
        return Template(
            conditions: conditions(members["conditions"]),
            parameters: parameters(members["parameters"], in: .root),
            groups: groups(members["parameterGroups"]),
            requestedDescription: requestedDescription(members["version"]))
    }

    private mutating func requestedDescription(_ json: JSONValue?) -> String {
        let path = TemplatePath.member(.root, "version")
        guard let json, let object = object(json, at: path) else { return "" }
        return string(object["description"], "description", in: path) ?? ""
    }

    private mutating func conditions(_ json: JSONValue?) -> [TemplateCondition] {
        guard let json else { return [] }
        let path = TemplatePath.conditions
        guard let elements = json.array else {
            typeProblem(json, "a list", at: path)
            return []
        }
        return elements.enumerated().compactMap { condition($1, at: .element(path, $0)) }
    }

    private mutating func condition(_ json: JSONValue, at path: TemplatePath) -> TemplateCondition? {
        guard let object = object(json, at: path) else { return nil }
        let members = members(of: object, known: ["name", "expression", "tagColor"], at: path)
        return TemplateCondition(
            name: string(members["name"], "name", in: path) ?? "",
            expression: string(members["expression"], "expression", in: path) ?? "",
            tagColor: word(members["tagColor"], "tagColor", in: path))
    }

    private mutating func groups(_ json: JSONValue?) -> [String: ParameterGroup] {
        let path = TemplatePath.groups
        return map(json, at: path) { decoder, name, json in
            let place = TemplatePath.member(path, name)
            guard let object = decoder.object(json, at: place) else { return nil }
            let members = decoder.members(of: object, known: ["description", "parameters"], at: place)
            return ParameterGroup(
                description: decoder.string(members["description"], "description", in: place) ?? "",
                parameters: decoder.parameters(members["parameters"], in: place))
        }
    }

    private mutating func parameters(_ json: JSONValue?, in parent: TemplatePath) -> [String: TemplateParameter] {
        let path = TemplatePath.member(parent, "parameters")
        return map(json, at: path) { $0.parameter($2, at: .member(path, $1)) }
    }

    private mutating func parameter(_ json: JSONValue, at path: TemplatePath) -> TemplateParameter? {
        guard let object = object(json, at: path) else { return nil }
        let known = ["defaultValue", "conditionalValues", "description", "valueType"]
        let members = members(of: object, known: known, at: path)
        let isEmpty = members["conditionalValues"]?.object?.isEmpty ?? (members["conditionalValues"] == nil)
        if isEmpty, members["defaultValue"] == nil {
            problems.add(at: path, "\(path.text): a default value or at least one conditional value is needed")
        }
        let conditionalPath = TemplatePath.member(path, "conditionalValues")
        return TemplateParameter(
            defaultValue: members["defaultValue"].flatMap { value($0, "defaultValue", in: path) },
            conditionalValues: map(members["conditionalValues"], at: conditionalPath) {
                $0.value($2, $1, in: conditionalPath)
            },
            description: string(members["description"], "description", in: path) ?? "",
            valueType: valueType(members["valueType"], in: path))
    }

    private mutating func valueType(_ json: JSONValue?, in path: TemplatePath) -> ValueType? {
        if json?.string == "PARAMETER_VALUE_TYPE_UNSPECIFIED" { return nil }
        return word(json, "valueType", in: path)
    }
}

extension TemplateDecoder {
    /// One parameter value; exactly one of its members must be there.
    private mutating func value(_ json: JSONValue, _ name: String, in parent: TemplatePath) -> ParameterValue? {
        // Most values have this form, which needs no path for a problem.
        if let object = json.object, object.count == 1, let text = object["value"]?.string { return .value(text) }
        let path = TemplatePath.member(parent, name)
        guard let object = object(json, at: path) else { return nil }
        let members = members(of: object, known: Self.valueMembers, at: path)
        guard members.count == 1, let (kind, content) = members.first else {
            problems.add(
                at: path,
                "\(path.text): exactly one of \(Self.valueMembers.joined(separator: ", ")) is expected")
            return nil
        }
        switch kind {
        case "value": return string(content, kind, in: path).map(ParameterValue.value)
        case "useInAppDefault": return inAppDefault(content, at: path)
        default: return managedValue(kind, content, at: .member(path, kind))
        }
    }

    private static let valueMembers = [
        "value", "useInAppDefault", "personalizationValue", "rolloutValue", "experimentValue",
    ]

    private mutating func inAppDefault(_ json: JSONValue, at path: TemplatePath) -> ParameterValue? {
        switch json {
        case .bool(true): return .inAppDefault
        case .bool(false):
            problems.add(
                .invalidInAppDefault, at: path,
                "\(path.text): useInAppDefault can only be true; leave the value out instead")
        default: typeProblem(json, "true", at: .member(path, "useInAppDefault"))
        }
        return nil
    }

    private mutating func managedValue(
        _ kind: String, _ content: JSONValue, at path: TemplatePath
    ) -> ParameterValue? {
        guard object(content, at: path) != nil else { return nil }
        let content = content.withCamelCaseMembers
        switch kind {
        case "personalizationValue": return .personalization(content)
        case "rolloutValue":
            checkPercent(content, "percent", in: path)
            return .rollout(content)
        default:
            checkPercent(content, "exposurePercent", in: path)
            return .experiment(content)
        }
    }

    /// A share of instances, if it is given, must be one: JSON's numbers reach further than any share.
    private mutating func checkPercent(_ content: JSONValue, _ name: String, in parent: TemplatePath) {
        guard let json = content[name], !json.isNull else { return }
        guard case .number(let text) = json else {
            return typeProblem(json, "a number", at: .member(parent, name))
        }
        if let percent = Double(text), (0...100).contains(percent) { return }
        let path = TemplatePath.member(parent, name)
        problems.add(at: path, "\(path.text): a percentage is a number of 0 to 100")
    }
}

extension TemplateDecoder {
    private mutating func object(_ json: JSONValue, at path: TemplatePath) -> JSONObject? {
        if let object = json.object { return object }
        typeProblem(json, "an object", at: path)
        return nil
    }

    private mutating func string(_ json: JSONValue?, _ name: String, in parent: TemplatePath) -> String? {
        guard let json, !json.isNull else { return nil }
        if let text = json.string { return text }
        typeProblem(json, "a text in quotes", at: .member(parent, name))
        return nil
    }

    private mutating func word<Word: RawRepresentable<String> & CaseIterable>(
        _ json: JSONValue?, _ name: String, in parent: TemplatePath
    ) -> Word? {
        guard let json else { return nil }
        if let word = json.string.flatMap(Word.init) { return word }
        let path = TemplatePath.member(parent, name)
        problems.add(
            .invalidArgument, at: path,
            path.prefix + "\(Self.shown(json)) is none of its words"
                + Self.hint(json.string, Word.allCases.map(\.rawValue)))
        return nil
    }

    private mutating func map<Value>(
        _ json: JSONValue?, at path: TemplatePath,
        _ read: (inout TemplateDecoder, String, JSONValue) -> Value?
    ) -> [String: Value] {
        guard let json, let object = object(json, at: path) else { return [:] }
        var values = [String: Value](minimumCapacity: object.count)
        for (name, json) in object.members { values[name] = read(&self, name, json) }
        return values
    }

    /// The members by their camelCase name, nulls left out (in protobuf's JSON they mean "not there").
    private mutating func members(
        of object: JSONObject, known: [String], at path: TemplatePath
    ) -> [String: JSONValue] {
        var members: [String: JSONValue] = [:]
        for (spelled, json) in object.members {
            // Protobuf's JSON mapping accepts both spellings of a field, `valueType` and `value_type`.
            let name = known.contains(spelled) ? spelled : spelled.camelCased
            guard known.contains(name) else {
                unknownName(spelled, known, at: path)
                continue
            }
            guard !json.isNull else { continue }
            if members.updateValue(json, forKey: name) != nil {
                problems.add(
                    .invalidArgument, at: path, path.prefix + "\"\(name)\" is there in two spellings")
            }
        }
        return members
    }

    private mutating func unknownName(_ name: String, _ known: [String], at path: TemplatePath) {
        problems.add(
            .invalidArgument, at: .member(path, name),
            path.prefix + "there is no \"\(name.shown)\" here" + Self.hint(name.camelCased, known))
    }

    private mutating func typeProblem(_ json: JSONValue, _ type: String, at path: TemplatePath) {
        problems.add(.invalidArgument, at: path, path.prefix + "\(type) is expected, not \(Self.shown(json))")
    }

    /// Words for the value that is there instead, in full where that is short.
    private static func shown(_ json: JSONValue) -> String {
        switch json {
        case .object, .array: json.kind
        default: json.text().shown
        }
    }

    /// The end of a sentence about a word that is not in `known`.
    private static func hint(_ word: String?, _ known: [String]) -> String {
        word.flatMap { nearestName(to: $0, of: known) }.map { "; did you mean \"\($0)\"?" }
            ?? "; known: \(known.joined(separator: ", "))"
    }
}

extension String {
    /// `use_in_app_default` as `useInAppDefault`; a name without an underscore between letters stays as it is.
    var camelCased: String {
        guard utf8.contains(UInt8(ascii: "_")) else { return self }
        let words = split(separator: "_", omittingEmptySubsequences: false)
        return words.dropFirst().reduce(into: String(words[0])) { name, word in
            name += word.prefix(1).uppercased()
            name += word.dropFirst()
        }
    }
}

extension JSONValue {
    /// Value with protobuf's original names of managed values in camelCase, other members as they are; depth is bounded
    /// by the JSON parser.
    fileprivate var withCamelCaseMembers: JSONValue {
        switch self {
        case .object(let object):
            var renamed = JSONObject()
            for (name, value) in object.members {
                renamed[Self.managedNames.contains(name) ? name.camelCased : name] = value.withCamelCaseMembers
            }
            return .object(renamed)
        case .array(let elements): return .array(elements.map(\.withCamelCaseMembers))
        default: return self
        }
    }

    private static let managedNames: Set<String> = [
        "personalization_id", "rollout_id", "experiment_id", "variant_value", "variant_id", "no_change",
        "exposure_percent",
    ]
}
