package import StalecastAccess
package import StalecastWire

/// One operation of an HTTP surface as its OpenAPI document tells it: what to send and what can come back.
package struct APIOperation: Hashable, Sendable {
    /// Unique in a document, camelCase: `publishTemplate`.
    package var id: String
    /// Method in capitals.
    package var method: String
    package var path: PathTemplate
    /// The heading it stands under.
    package var tag: String
    /// A line without its full stop.
    package var summary: String
    /// Parameters; those of the path are added by themselves, as texts.
    package var parameters: [APIParameter]
    /// nil when the operation has no body.
    package var body: APIBody?
    package var answers: [APIAnswer]
    /// The errors it can answer with beside those that every operation has; all have the error envelope.
    package var errors: [Int]
    package var needsToken: Bool
    /// Action that a caller's grants must permit; nil asks for none.
    package var action: AccessAction?

    package init(
        _ id: String, _ method: String, _ path: PathTemplate, tag: String, summary: String,
        parameters: [APIParameter] = [], body: APIBody? = nil, answers: [APIAnswer], errors: [Int] = [400, 404],
        needsToken: Bool = true, action: AccessAction? = nil
    ) {
        self.id = id
        self.method = method
        self.path = path
        self.tag = tag
        self.summary = summary
        self.parameters = parameters
        self.body = body
        self.answers = answers
        self.errors = errors
        self.needsToken = needsToken
        self.action = action
    }
}

package struct APIParameter: Hashable, Sendable {
    package enum Place: String, Sendable { case query, header, path }

    package var place: Place
    package var name: String
    package var summary: String
    package var schema: JSONValue
    package var isRequired: Bool

    package init(
        _ place: Place, _ name: String, _ summary: String, schema: JSONValue = ["type": "string"],
        isRequired: Bool = false
    ) {
        self.place = place
        self.name = name
        self.summary = summary
        self.schema = schema
        self.isRequired = isRequired
    }

    package static func query(
        _ name: String, _ summary: String, schema: JSONValue = ["type": "string"], isRequired: Bool = false
    ) -> APIParameter { APIParameter(.query, name, summary, schema: schema, isRequired: isRequired) }

    package static func flag(_ name: String, _ summary: String) -> APIParameter {
        query(name, summary, schema: ["type": "boolean"])
    }

    package static func header(
        _ name: String, _ summary: String, schema: JSONValue = ["type": "string"], isRequired: Bool = false
    ) -> APIParameter { APIParameter(.header, name, summary, schema: schema, isRequired: isRequired) }
}

package struct APIBody: Hashable, Sendable {
    /// JSON Schema; `["$ref": "#/components/schemas/Name"]` for one of the section's.
    package var schema: JSONValue
    package var isRequired: Bool

    package init(_ schema: JSONValue, isRequired: Bool = true) {
        self.schema = schema
        self.isRequired = isRequired
    }
}

/// An answer other than the error envelope.
package struct APIAnswer: Hashable, Sendable {
    package var status: Int
    /// A line without its full stop.
    package var summary: String
    /// Contents by media type without parameters; empty when there is no body.
    package var content: [Content]
    package var headers: [String]
    /// Header fields that may be there, with what they say.
    package var mayHave: [String: String]

    package struct Content: Hashable, Sendable {
        package var type: String
        /// nil for bytes that are no JSON.
        package var schema: JSONValue?

        package init(_ type: String, _ schema: JSONValue? = nil) {
            self.type = type
            self.schema = schema
        }
    }

    package init(
        _ summary: String, status: Int = 200, content: [Content] = [], headers: [String] = [],
        mayHave: [String: String] = [:]
    ) {
        self.status = status
        self.summary = summary
        self.content = content
        self.headers = headers
        self.mayHave = mayHave
    }

    package static func json(
        _ summary: String, _ schema: JSONValue, status: Int = 200, headers: [String] = [],
        mayHave: [String: String] = [:]
    ) -> APIAnswer {
        let content = [Content("application/json", schema)]
        return APIAnswer(summary, status: status, content: content, headers: headers, mayHave: mayHave)
    }
}

extension JSONValue {
    /// A schema that is a section's own: `["$ref": "#/components/schemas/<name>"]`.
    package static func schema(_ name: String) -> JSONValue { ["$ref": .string("#/components/schemas/\(name)")] }
    package static func listSchema(_ element: JSONValue) -> JSONValue { ["type": "array", "items": element] }
    /// An object with those members, which may have others.
    ///
    /// - Parameter properties: a key may name several members that have one schema, separated by a comma and a space.
    package static func objectSchema(_ properties: JSONObject, required: [String] = []) -> JSONValue {
        var schema: JSONObject = ["type": "object", "properties": .object(properties.split)]
        if !required.isEmpty { schema["required"] = .array(required.map(JSONValue.string)) }
        return .object(schema)
    }
    /// An object that has all of those members but for `optional`, which may be left out. It may have others.
    package static func recordSchema(_ properties: JSONObject, optional: Set<String> = []) -> JSONValue {
        objectSchema(properties, required: properties.split.keys.filter { !optional.contains($0) })
    }
    package static func enumSchema(_ words: some Sequence<String>) -> JSONValue {
        ["type": "string", "enum": .array(words.map(JSONValue.string))]
    }
}

extension JSONObject {
    /// A member for each name of each key.
    fileprivate var split: JSONObject {
        members.reduce(into: JSONObject()) { object, member in
            for name in member.key.split(separator: ", ") { object[String(name)] = member.value }
        }
    }
}
