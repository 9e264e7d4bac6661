import StalecastWire

extension TemplateRules {
    /// A parameter's name is unique over the template and not a group's name as well.
    mutating func checkUniqueKeys() {
        var places = template.parameters.mapValues { _ in TemplatePath.parameters }
        for group in template.groups.keys.sorted() {
            for key in template.groups[group, default: ParameterGroup()].parameters.keys.sorted() {
                let place = TemplatePath.member(.groups, group)
                guard let other = places.updateValue(place, forKey: key) else { continue }
                problems.add(
                    .duplicateKey, at: .member(.member(place, "parameters"), key),
                    "parameter '\(key.shown)' is in \(other.text) and in \(place.text); "
                        + "a name is used once per template")
            }
        }
        for group in template.groups.keys.sorted() where places[group] != nil {
            problems.add(
                .duplicateKey, at: .member(.groups, group),
                "'\(group.shown)' is the name of a group and of a parameter")
        }
    }

    mutating func checkParameters(_ parameters: [String: TemplateParameter], in parent: TemplatePath) {
        for key in parameters.keys.sorted() {
            guard let parameter = parameters[key] else { continue }
            let path = TemplatePath.member(.member(parent, "parameters"), key)
            checkKey(key, at: path)
            checkLength(
                parameter.description, limits.descriptionLength, "the description of a parameter",
                at: .member(path, "description"))
            checkValues(of: parameter, at: path)
            checkSchema(of: parameter, at: path)
        }
    }

    private mutating func checkKey(_ key: String, at path: TemplatePath) {
        let isLegal = key.utf8.allSatisfy { $0.isASCIIAlphanumeric || $0 == UInt8(ascii: "_") }
        let startsWithDigit = key.utf8.first.map { (0x30...0x39).contains($0) } ?? true
        if !isLegal || startsWithDigit || key.utf8.count > limits.keyLength {
            problems.add(
                at: path,
                """
                '\(key.shown)' is no parameter name: 1 to \(limits.keyLength) characters of A-Z a-z 0-9 _, \
                no digit first
                """)
        } else if Self.forbiddenKeys.contains(key) {
            problems.add(at: path, "'\(key)' is reserved and cannot name a parameter")
        }
    }

    /// Names that every JavaScript object has anyway.
    private static let forbiddenKeys: Set<String> = [
        "__proto__", "constructor", "prototype", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable",
        "toLocaleString", "toString", "valueOf",
    ]

    private mutating func checkValues(of parameter: TemplateParameter, at path: TemplatePath) {
        guard parameter.effectiveType != .string else { return }
        if let value = parameter.defaultValue {
            check(value, is: parameter.effectiveType, at: .member(path, "defaultValue"))
        }
        for name in parameter.conditionalValues.keys.sorted() {
            guard let value = parameter.conditionalValues[name] else { continue }
            check(value, is: parameter.effectiveType, at: .member(.member(path, "conditionalValues"), name))
        }
    }

    private mutating func check(_ value: ParameterValue, is type: ValueType, at path: TemplatePath) {
        for text in value.texts {
            guard let complaint = type.complaint(about: text) else { continue }
            problems.add(.valueTypeMismatch, at: path, "\(path.text): '\(text.shown)' \(complaint)")
        }
    }

    mutating func checkTotalValueLength() {
        let length = template.parameterMaps.reduce(0) { total, parameters in
            parameters.values.reduce(total) { $0 + $1.totalValueLength }
        }
        guard length > limits.totalValueLength else { return }
        problems.add(
            at: .parameters,
            "all values together have \(length) characters, at most \(limits.totalValueLength) are allowed")
    }
}

extension TemplateParameter {
    /// Characters of all values.
    fileprivate var totalValueLength: Int {
        let values = defaultValue.map { [$0] } ?? []
        return (values + conditionalValues.values).reduce(0) { total, value in
            value.texts.reduce(total) { $0 + $1.unicodeScalars.count }
        }
    }
}

extension ValueType {
    /// Complaint about `text` as a value of this type; nil when it is allowed.
    fileprivate func complaint(about text: String) -> String? {
        switch self {
        case .string: nil
        case .boolean: ["true", "false"].contains(text.lowercased()) ? nil : "is neither true nor false"
        case .number: Self.isNumber(text) ? nil : "is not a number"
        case .json: Self.jsonComplaint(about: text)
        }
    }

    /// `^-?(\d*\.)?\d+$`
    private static func isNumber(_ text: String) -> Bool {
        let digits = text.utf8.first == UInt8(ascii: "-") ? text.dropFirst() : text[...]
        let parts = digits.split(separator: ".", omittingEmptySubsequences: false)
        let areDigits = parts.allSatisfy { $0.utf8.allSatisfy { (0x30...0x39).contains($0) } }
        return parts.count <= 2 && areDigits && parts.last?.isEmpty == false
    }

    private static func jsonComplaint(about text: String) -> String? {
        do {
            _ = try JSONValue.parse(text.utf8)
            return nil
        } catch {
            return "is not JSON: \(error)"
        }
    }
}
