/// A JSON Schema, the part of draft 2020-12 that ``SchemaCompiler`` reads, ready to check values.
struct JSONSchema: Sendable {
    /// The rules of each subschema; the first is the schema itself. Rules name other subschemas by their place here.
    let subschemas: [[Rule]]

    typealias Place = Int

    /// One assertion, or several that need each other.
    enum Rule: Sendable {
        /// The schema `false`.
        case nothing
        case types([TypeName])
        /// `enum` and `const`: the canonical bytes of what is allowed, and words for it.
        case values(Set<[UInt8]>, text: String)
        case number(NumberKeyword, ExactNumber, text: String)
        case count(CountKeyword, Int)
        case pattern(Pattern, text: String)
        /// `prefixItems` and `items`.
        case items([Place], rest: Place?)
        case uniqueItems
        /// `properties`, `patternProperties` and `additionalProperties`.
        case members([ExactText: Place], patterns: [(Pattern, Place)], rest: Place?)
        case memberNames(Place)
        case required(Set<ExactText>)
        /// `allOf` and `$ref`.
        case all([Place])
        case any([Place])
        case one([Place])
        case not(Place)
        case condition(Place, then: Place?, else: Place?)
    }

    enum TypeName: String, Sendable, CaseIterable { case null, boolean, object, array, number, integer, string }

    enum NumberKeyword: String, Sendable, CaseIterable {
        case minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf
    }

    /// Keywords that count code points, elements or members.
    enum CountKeyword: String, Sendable, CaseIterable {
        case minLength, maxLength, minItems, maxItems, minProperties, maxProperties
    }
}

/// Reason why a schema or a value is refused, and where in it.
struct SchemaComplaint: Error, Sendable {
    /// Names and indices from the document's root on.
    let path: [String]
    /// A sentence without its full stop.
    let reason: String

    /// The path as a JSON Pointer (RFC 6901): empty for the whole document.
    var pointer: String {
        path.map { step in
            step.reduce(into: "/") { text, letter in
                text += letter == "~" ? "~0" : letter == "/" ? "~1" : String(letter)
            }
        }.joined()
    }
}
