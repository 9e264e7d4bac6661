import StalecastWire

/// Checks values against one schema. Schema and value come from outside, so the work has a budget and a depth.
struct SchemaCheck {
    private let schema: JSONSchema
    private(set) var budget: EvaluationBudget
    private var matcher = Pattern.Matcher()
    private var depth = 0
    private var isTooDeep = false
    /// Above 0 while alternatives are tried: a failure there is no complaint.
    private var trials = 0
    private var path: [String] = []
    private var complaint: SchemaComplaint?

    /// Subschemas within each other, references included. Each takes up to 480 bytes of the stack, and a thread of the
    /// static binary has 128 KiB (musl's default) for all that it does.
    static let maxDepth = 128

    init(_ schema: JSONSchema, budget: EvaluationBudget) {
        self.schema = schema
        self.budget = budget
    }

    /// Complaint about `value`; nil when it obeys the schema.
    mutating func complaint(about value: JSONValue) -> SchemaComplaint? {
        (complaint, isTooDeep) = (nil, false)
        if accepts(value, 0), !budget.isExhausted { return nil }
        if isTooDeep {
            return SchemaComplaint(path: [], reason: "the schema is followed more than \(Self.maxDepth) levels deep")
        }
        if budget.isExhausted {
            return SchemaComplaint(path: [], reason: "the check takes too long; the schema must be simpler")
        }
        return complaint ?? SchemaComplaint(path: [], reason: "the schema does not allow it")
    }

    private mutating func accepts(_ value: JSONValue, _ place: JSONSchema.Place, at step: String? = nil) -> Bool {
        budget.spend(10)
        // The end of the budget ends everything, so that no trial goes on.
        if depth == Self.maxDepth {
            isTooDeep = true
            budget.spend(budget.stepsLeft)
        }
        if budget.isExhausted { return false }
        depth += 1
        if let step { path.append(step) }
        let obeys = schema.subschemas[place].allSatisfy { self.obeys(value, $0) }
        if step != nil { path.removeLast() }
        depth -= 1
        return obeys
    }

    private mutating func fail(_ reason: @autoclosure () -> String) -> Bool {
        if trials == 0, complaint == nil { complaint = SchemaComplaint(path: path, reason: reason()) }
        return false
    }

    private mutating func accepted(_ value: JSONValue, of places: [JSONSchema.Place], enough: Int) -> Int {
        trials += 1
        defer { trials -= 1 }
        var count = 0
        for place in places where count < enough && accepts(value, place) { count += 1 }
        return count
    }

    private mutating func obeys(_ value: JSONValue, _ rule: JSONSchema.Rule) -> Bool {
        if budget.isExhausted { return false }
        switch rule {
        case .nothing: return fail("nothing is allowed here")
        case .types(let types):
            if types.contains(where: { $0.includes(value) }) { return true }
            return fail("\(value.inWords) is not of type \(types.map(\.rawValue).joined(separator: " or "))")
        case .values(let values, let text):
            let bytes = value.canonicalBytes
            budget.spend(2 * bytes.count)
            return values.contains(bytes) || fail("\(value.inWords) is not \(values.count > 1 ? "one of " : "")\(text)")
        case .all(let places): return places.allSatisfy { accepts(value, $0) }
        case .any(let places):
            return accepted(value, of: places, enough: 1) > 0
                || fail("\(value.inWords) matches none of the \(places.count) schemas of \"anyOf\"")
        case .one(let places):
            let count = accepted(value, of: places, enough: 2)
            return count == 1
                || fail("\(value.inWords) obeys \(count == 0 ? "none" : "more than one") of the schemas of \"oneOf\"")
        case .not(let place):
            return accepted(value, of: [place], enough: 1) == 0 || fail("\(value.inWords) obeys the schema of \"not\"")
        case .condition(let test, let yes, let no):
            let next = accepted(value, of: [test], enough: 1) == 1 ? yes : no
            return next.map { accepts(value, $0) } ?? true
        default:
            switch value {
            case .number(let text): return obeys(text, rule)
            case .string(let text): return obeys(text: text, rule)
            case .array(let elements): return obeys(elements, rule)
            case .object(let object): return obeys(object, rule)
            case .null, .bool: return true
            }
        }
    }

    private mutating func obeys(_ text: String, _ rule: JSONSchema.Rule) -> Bool {
        guard case .number(let keyword, let bound, let boundText) = rule else { return true }
        budget.spend(4 * text.utf8.count)
        let number = ExactNumber(text)
        let obeys =
            switch keyword {
            case .minimum: number >= bound
            case .maximum: number <= bound
            case .exclusiveMinimum: number > bound
            case .exclusiveMaximum: number < bound
            case .multipleOf: number.isMultiple(of: bound)
            }
        return obeys || fail("\(text.shown) breaks \(keyword.rawValue) \(boundText)")
    }

    private mutating func obeys(text: String, _ rule: JSONSchema.Rule) -> Bool {
        budget.spend(text.utf8.count / 4)
        switch rule {
        case .count(.minLength, let bound): return obeys(text.unicodeScalars.count, .minLength, bound, "characters")
        case .count(.maxLength, let bound): return obeys(text.unicodeScalars.count, .maxLength, bound, "characters")
        case .pattern(let pattern, let source):
            return finds(pattern, in: text) || fail("\"\(text.shown)\" does not match the pattern \(source.shown)")
        default: return true
        }
    }

    private mutating func finds(_ pattern: Pattern, in text: String) -> Bool {
        budget.spend(10 + text.utf8.count)
        if budget.isExhausted { return false }
        return matcher.finds(pattern, in: text.unicodeScalars.map(\.value), budget: &budget) ?? false
    }

    private mutating func obeys(_ elements: [JSONValue], _ rule: JSONSchema.Rule) -> Bool {
        switch rule {
        case .count(let keyword, let bound) where keyword == .minItems || keyword == .maxItems:
            return obeys(elements.count, keyword, bound, "elements")
        case .items(let first, let rest):
            for (index, element) in elements.enumerated() {
                guard let place = index < first.count ? first[index] : rest else { return true }
                guard accepts(element, place, at: "\(index)") else { return false }
            }
            return true
        case .uniqueItems:
            // Canonical bytes in a set need one pass; comparing each pair would take the square of the length.
            var seen: Set<[UInt8]> = []
            for (index, element) in elements.enumerated() {
                let bytes = element.canonicalBytes
                budget.spend(2 * bytes.count)
                if !seen.insert(bytes).inserted { return fail("element \(index) is there twice") }
            }
            return true
        default: return true
        }
    }

    private mutating func obeys(_ object: JSONObject, _ rule: JSONSchema.Rule) -> Bool {
        budget.spend(4 * object.count)
        switch rule {
        case .count(let keyword, let bound) where keyword == .minProperties || keyword == .maxProperties:
            return obeys(object.count, keyword, bound, "members")
        case .required(let names):
            // Byte by byte: to Swift's dictionaries a composed and a decomposed letter are the same.
            let missing = names.subtracting(object.keys.lazy.map { ExactText($0) })
            guard let name = missing.map({ String(decoding: $0.bytes, as: UTF8.self) }).min() else { return true }
            return fail("the member \"\(name.shown)\" is missing")
        case .memberNames(let place):
            return object.keys.allSatisfy { accepts(.string($0), place, at: $0) }
        case .members(let named, let patterns, let rest):
            return object.members.allSatisfy { accepts($1, member: $0, named, patterns, rest) }
        default: return true
        }
    }

    private mutating func accepts(
        _ value: JSONValue, member name: String, _ named: [ExactText: JSONSchema.Place],
        _ patterns: [(Pattern, JSONSchema.Place)], _ rest: JSONSchema.Place?
    ) -> Bool {
        budget.spend(name.utf8.count / 4)
        var places = named[ExactText(name)].map { [$0] } ?? []
        for (pattern, place) in patterns where finds(pattern, in: name) { places.append(place) }
        if budget.isExhausted { return false }
        if places.isEmpty, let rest {
            if case .nothing? = schema.subschemas[rest].first { return fail(Self.unknown(name, named)) }
            places = [rest]
        }
        return places.allSatisfy { accepts(value, $0, at: name) }
    }

    private static func unknown(_ name: String, _ named: [ExactText: JSONSchema.Place]) -> String {
        let known = named.keys.map { String(decoding: $0.bytes, as: UTF8.self) }.sorted()
        let near = nearestName(to: name, of: known).map { "; did you mean \"\($0.shown)\"?" }
        return "the member \"\(name.shown)\" is not allowed" + (near ?? "")
    }

    private mutating func obeys(
        _ count: Int, _ keyword: JSONSchema.CountKeyword, _ bound: Int, _ things: String
    ) -> Bool {
        let obeys = keyword.rawValue.hasPrefix("min") ? count >= bound : count <= bound
        return obeys || fail("\(count) \(things) break \(keyword.rawValue) \(bound)")
    }
}

extension JSONSchema.TypeName {
    fileprivate func includes(_ value: JSONValue) -> Bool {
        switch (self, value) {
        case (.null, .null), (.boolean, .bool), (.object, .object), (.array, .array), (.number, .number),
            (.string, .string):
            true
        case (.integer, .number(let text)): ExactNumber(text).isInteger
        default: false
        }
    }
}

extension JSONValue {
    /// The value itself where it is short, else its kind.
    fileprivate var inWords: String {
        switch self {
        case .array, .object: kind
        case .null, .bool, .number: text().shown
        case .string(let text): "\"\(text.shown)\""
        }
    }
}
