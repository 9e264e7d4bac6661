package import StalecastWire

/// Turns a map of plain values, as config servers other than Firebase's have it, into a template: each member becomes a
/// parameter with a default value of its JSON type.
package enum ValueMap {
    /// - Parameter value: an object, or an array of them of which earlier ones win. Elements that look like Spring's
    ///   property sources (`{"name":…,"source":{…}}`) count by their `source`.
    /// - Returns: a template's document; not validated yet.
    /// - Throws: ``InvalidValue`` for another shape, or two names that become one.
    package static func template(from value: JSONValue) throws(InvalidValue) -> JSONValue {
        var parameters = JSONObject()
        var spellings: [String: String] = [:]
        for (name, value) in try members(of: value) {
            let key = parameterName(name)
            // A name that comes again is of a later source: the earlier one wins. Another name is a collision.
            if let other = spellings[key] {
                if other == name { continue }
                throw InvalidValue(
                    "\"\(other.prefix(80))\" and \"\(name.prefix(80))\" would both become parameter \(key)")
            }
            spellings[key] = name
            parameters[key] = parameter(value)
        }
        return ["parameters": .object(parameters)]
    }

    private static func members(of value: JSONValue) throws(InvalidValue) -> [(String, JSONValue)] {
        switch value {
        case .object(let object): return object.members.map { ($0.key, $0.value) }
        case .array(let elements):
            var all: [(String, JSONValue)] = []
            for element in elements {
                guard let object = element["source"]?.object ?? element.object else {
                    throw InvalidValue("an element of the list of values is \(element.kind), not an object")
                }
                all += object.members.map { ($0.key, $0.value) }
            }
            return all
        case .null, .bool, .number, .string:
            throw InvalidValue("the values are \(value.kind); they must be an object, or a list of objects")
        }
    }

    /// Firebase's parameters are named like variables: `a.b-c` becomes `a_b_c`.
    private static func parameterName(_ name: String) -> String {
        var key = String(decoding: name.utf8.map { $0.isASCIIAlphanumeric ? $0 : UInt8(ascii: "_") }, as: UTF8.self)
        if let first = key.utf8.first, (0x30...0x39).contains(first) { key = "_" + key }
        return key
    }

    private static func parameter(_ value: JSONValue) -> JSONValue {
        let (text, type): (String, String) =
            switch value {
            case .string(let text): (text, "STRING")
            case .bool(let flag): (flag ? "true" : "false", "BOOLEAN")
            case .number(let text): (text, "NUMBER")
            case .object, .array: (value.text(JSONStyle(asciiOnly: false)), "JSON")
            case .null: ("", "STRING")
            }
        if value.isNull { return ["defaultValue": ["useInAppDefault": true]] }
        return ["defaultValue": ["value": .string(text)], "valueType": .string(type)]
    }
}
