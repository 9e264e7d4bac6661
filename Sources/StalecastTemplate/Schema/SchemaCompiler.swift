import StalecastWire

/// Reads a schema. What it does not know is refused: a keyword that is skipped would promise a check that is not made.
struct SchemaCompiler {
    var budget: EvaluationBudget
    private var subschemas: [[JSONSchema.Rule]] = []
    private var definitions: [String: JSONSchema.Place] = [:]
    private var path: [String] = []

    init(_ budget: EvaluationBudget) { self.budget = budget }

    /// - Parameter json: a document whose depth the parser has bounded.
    mutating func schema(_ json: JSONValue) throws(SchemaComplaint) -> JSONSchema {
        subschemas = [[]]
        // Places first: definitions may refer to each other and to the whole.
        let defined = try object(json["$defs"] ?? [:], "$defs")
        for name in defined.keys {
            definitions[name] = subschemas.count
            subschemas.append([])
        }
        subschemas[0] = try rules(json)
        for (name, json) in defined.members {
            path = ["$defs", name]
            subschemas[definitions[name, default: 0]] = try rules(json)
        }
        return JSONSchema(subschemas: subschemas)
    }

    private mutating func subschema(_ json: JSONValue, _ steps: String...) throws(SchemaComplaint) -> JSONSchema.Place {
        path += steps
        let rules = try rules(json)
        path.removeLast(steps.count)
        subschemas.append(rules)
        return subschemas.count - 1
    }

    private mutating func optional(_ word: String, _ all: JSONObject) throws(SchemaComplaint) -> JSONSchema.Place? {
        guard let json = all[word] else { return nil }
        return try subschema(json, word)
    }

    private mutating func rules(_ json: JSONValue) throws(SchemaComplaint) -> [JSONSchema.Rule] {
        budget.spend(20)
        if budget.isExhausted { throw complaint("all schemas of the template are too large together") }
        if let allows = json.bool { return allows ? [] : [.nothing] }
        guard let object = json.object else {
            throw complaint("a schema is an object, true or false, not \(json.kind)")
        }
        var rules: [JSONSchema.Rule] = []
        for (word, value) in object.members {
            if let rule = try rule(word, value, object) { rules.append(rule) }
        }
        return rules
    }

    /// The rule of one keyword; nil where it asserts nothing, or where the keyword it belongs to reads it.
    private mutating func rule(
        _ word: String, _ value: JSONValue, _ all: JSONObject
    ) throws(SchemaComplaint) -> JSONSchema.Rule? {
        if let keyword = JSONSchema.NumberKeyword(rawValue: word) { return try number(keyword, value) }
        if let keyword = JSONSchema.CountKeyword(rawValue: word) { return .count(keyword, try count(value, word)) }
        switch word {
        case "type": return .types(try types(value))
        case "enum": return values(try list(value, word))
        case "const": return values([value])
        case "pattern": return .pattern(try pattern(value.string, word), text: value.string ?? "")
        case "required": return .required(try names(value, word))
        case "propertyNames": return .memberNames(try subschema(value, word))
        case "properties", "patternProperties", "additionalProperties":
            // The first of the three that is there reads all.
            let first = ["properties", "patternProperties", "additionalProperties"].first { all[$0] != nil }
            return first == word ? try properties(all) : nil
        case "prefixItems": return .items(try schemas(value, word), rest: try optional("items", all))
        case "items":
            if value.array != nil { throw complaint("draft 2020-12 calls a list of schemas \"prefixItems\"", word) }
            return all["prefixItems"] == nil ? .items([], rest: try subschema(value, word)) : nil
        case "uniqueItems":
            guard let isOn = value.bool else { throw complaint("true or false is expected", word) }
            return isOn ? .uniqueItems : nil
        case "$ref": return .all([try reference(value)])
        case "allOf": return .all(try schemas(value, word))
        case "anyOf": return .any(try schemas(value, word))
        case "oneOf": return .one(try schemas(value, word))
        case "not": return .not(try subschema(value, word))
        case "if":
            let test = try subschema(value, word)
            return .condition(test, then: try optional("then", all), else: try optional("else", all))
        case "then", "else":
            if all["if"] == nil { _ = try subschema(value, word) }
            return nil
        default:
            try checkNote(word, value)
            return nil
        }
    }

    private mutating func properties(_ all: JSONObject) throws(SchemaComplaint) -> JSONSchema.Rule {
        var named: [ExactText: JSONSchema.Place] = [:]
        for (name, json) in try object(all["properties"] ?? [:], "properties").members {
            named[ExactText(name)] = try subschema(json, "properties", name)
        }
        var patterns: [(Pattern, JSONSchema.Place)] = []
        for (text, json) in try object(all["patternProperties"] ?? [:], "patternProperties").members {
            patterns.append((try pattern(text, "patternProperties"), try subschema(json, "patternProperties", text)))
        }
        return .members(named, patterns: patterns, rest: try optional("additionalProperties", all))
    }
}

extension SchemaCompiler {
    /// Keywords that assert nothing here. `format` is one: draft 2020-12 makes it a note unless asked otherwise.
    private static let notes: Set<String> = [
        "$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "format",
        "contentEncoding", "contentMediaType", "contentSchema",
    ]

    private static let keywords =
        JSONSchema.NumberKeyword.allCases.map(\.rawValue) + JSONSchema.CountKeyword.allCases.map(\.rawValue) + [
            "type", "enum", "const", "pattern", "required", "propertyNames", "properties", "patternProperties",
            "additionalProperties", "prefixItems", "items", "uniqueItems", "$ref", "$defs", "allOf", "anyOf", "oneOf",
            "not", "if", "then", "else",
        ]

    private func checkNote(_ word: String, _ value: JSONValue) throws(SchemaComplaint) {
        if Self.notes.contains(word) || word.hasPrefix("x-") { return }
        if ["$schema", "$id", "$defs"].contains(word) {
            if !path.isEmpty { throw complaint("\"\(word)\" stands only at the top of the whole schema") }
            let draft = "https://json-schema.org/draft/2020-12/schema"
            if word != "$schema" || value.string == draft { return }
            throw complaint("only \(draft) is known", word)
        }
        let near = nearestName(to: word, of: Self.keywords).map { "; did you mean \"\($0)\"?" }
        let advice = word == "definitions" ? "; draft 2020-12 calls it \"$defs\"" : near ?? ""
        throw complaint("\"\(word.shown)\" is no keyword that is checked here\(advice)")
    }

    private mutating func schemas(_ value: JSONValue, _ word: String) throws(SchemaComplaint) -> [JSONSchema.Place] {
        try list(value, word).enumerated().map { (index, json) throws(SchemaComplaint) in
            try subschema(json, word, "\(index)")
        }
    }

    private func reference(_ value: JSONValue) throws(SchemaComplaint) -> JSONSchema.Place {
        guard let text = value.string, text == "#" || text.hasPrefix("#/$defs/") else {
            throw complaint("only \"#\" and \"#/$defs/NAME\" are known, not \(value.text().shown)", "$ref")
        }
        let name = String(text.dropFirst("#/$defs/".count))
        if name.contains(where: { "~%/".contains($0) }) {
            throw complaint("a name with ~, % or / cannot be referred to here", "$ref")
        }
        if let place = text == "#" ? 0 : definitions[name] { return place }
        let near = nearestName(to: name, of: definitions.keys.sorted()).map { "; did you mean \"\($0.shown)\"?" } ?? ""
        throw complaint("there is no \"\(name.shown)\" in $defs\(near)", "$ref")
    }

    private func types(_ value: JSONValue) throws(SchemaComplaint) -> [JSONSchema.TypeName] {
        let words = value.string == nil ? try list(value, "type") : [value]
        var types: [JSONSchema.TypeName] = []
        for word in words {
            guard let type = word.string.flatMap(JSONSchema.TypeName.init) else {
                let known = JSONSchema.TypeName.allCases.map(\.rawValue).joined(separator: ", ")
                throw complaint("\(word.text().shown) is no type; known: \(known)", "type")
            }
            types.append(type)
        }
        return types
    }

    private mutating func values(_ values: [JSONValue]) -> JSONSchema.Rule {
        let bytes = values.map(\.canonicalBytes)
        budget.spend(bytes.reduce(0) { $0 + $1.count })
        let texts = values.prefix(5).map { $0.text().shown } + (values.count > 5 ? ["…"] : [])
        return .values(Set(bytes), text: texts.joined(separator: ", "))
    }

    private mutating func pattern(_ text: String?, _ word: String) throws(SchemaComplaint) -> Pattern {
        guard let text else { throw complaint("a regular expression in quotes is expected", word) }
        do {
            let pattern = try Pattern(parsing: text)
            budget.spend(pattern.program.count + text.utf8.count)
            return pattern
        } catch {
            throw complaint("\"\(text.shown)\" is no regular expression that is known here: \(error.reason)", word)
        }
    }

    private func number(
        _ keyword: JSONSchema.NumberKeyword, _ value: JSONValue
    ) throws(SchemaComplaint) -> JSONSchema.Rule {
        guard case .number(let text) = value else { throw complaint("a number is expected", keyword.rawValue) }
        let (number, most) = (ExactNumber(text), ExactNumber.maxDivisorDigits)
        let isDivisor = !number.isNegative && (1...most).contains(number.digits.count)
        if keyword == .multipleOf, !isDivisor {
            throw complaint("a number above 0 with at most \(most) digits is expected", keyword.rawValue)
        }
        return .number(keyword, number, text: text.shown)
    }

    /// A count may be spelled `2.0`; a huge one is no bound.
    private func count(_ value: JSONValue, _ word: String) throws(SchemaComplaint) -> Int {
        guard case .number(let text) = value, let number = Double(text), number >= 0, number == number.rounded() else {
            throw complaint("a whole number from 0 on is expected", word)
        }
        return Int(min(number, 1e15))
    }

    private func names(_ value: JSONValue, _ word: String) throws(SchemaComplaint) -> Set<ExactText> {
        let names = (value.array ?? [value]).map { $0.string.map { ExactText($0) } }
        if value.array == nil || names.contains(nil) { throw complaint("a list of names is expected", word) }
        return Set(names.compactMap { $0 })
    }

    private func list(_ value: JSONValue, _ word: String) throws(SchemaComplaint) -> [JSONValue] {
        if let elements = value.array, !elements.isEmpty { return elements }
        throw complaint("a list that is not empty is expected", word)
    }

    private func object(_ value: JSONValue, _ word: String) throws(SchemaComplaint) -> JSONObject {
        if let object = value.object { return object }
        throw complaint("an object is expected", word)
    }

    private func complaint(_ reason: String, _ word: String? = nil) -> SchemaComplaint {
        SchemaComplaint(path: path + (word.map { [$0] } ?? []), reason: reason)
    }
}
