import StalecastAccess
package import StalecastWire

/// An OpenAPI 3.1 document, made from the same table that routes are found in.
package struct APIDocument: Sendable {
    package var title: String
    package var version: String
    /// Facts for every caller: authentication, errors, limits.
    package var description: String
    package var operations: [APIOperation]
    /// JSON Schemas by name, for `$ref`.
    package var schemas: JSONObject
    package var commonErrors: [Int]

    package init(
        title: String, version: String, description: String, operations: [APIOperation], schemas: JSONObject,
        commonErrors: [Int]
    ) {
        self.title = title
        self.version = version
        self.description = description
        self.operations = operations
        self.schemas = schemas
        self.commonErrors = commonErrors
    }

    /// The document; paths in the table's order.
    package var json: JSONValue {
        var schemas = schemas
        schemas["Error"] = Self.errorSchema
        let asksForToken = operations.contains(where: \.needsToken)
        return [
            "openapi": "3.1.0",
            "info": ["title": .string(title), "version": .string(version), "description": .string(description)],
            "servers": [["url": "/"]],
            "paths": .object(paths),
            "components": [
                "schemas": .object(schemas),
                "securitySchemes": asksForToken ? ["token": ["type": "http", "scheme": "bearer"]] : nil,
            ],
        ]
    }

    private var paths: JSONObject {
        var paths = JSONObject()
        for operation in operations {
            var item = paths[operation.path.text]?.object ?? JSONObject()
            item[operation.method.lowercased()] = .object(describe(operation))
            paths[operation.path.text] = .object(item)
        }
        return paths
    }

    private func describe(_ operation: APIOperation) -> JSONObject {
        let inPath = operation.path.names.filter { name in
            !operation.parameters.contains { $0.place == .path && $0.name == name }
        }
        let parameters =
            inPath.map { APIParameter(.path, $0, Self.pathNames[$0] ?? "The \($0).") }
            + operation.parameters
        return [
            "operationId": .string(operation.id), "tags": [.string(operation.tag)],
            "summary": .string(operation.summary),
            "parameters": parameters.isEmpty ? nil : .array(parameters.map(describe)),
            "requestBody": operation.body.map { body in
                ["required": .bool(body.isRequired), "content": ["application/json": ["schema": body.schema]]]
            }, "responses": .object(answers(operation)),
            "x-stalecast-action": operation.action.map { .string($0.rawValue) },
            "security": operation.needsToken ? [["token": []]] : [],
        ]
    }

    private static let pathNames = [
        "project": "The project's id or its number.", "namespace": "`firebase`, or another the project has.",
    ]

    private func describe(_ parameter: APIParameter) -> JSONValue {
        // A list in the query is the parameter several times.
        let isList = parameter.schema["type"]?.string == "array"
        return [
            "name": .string(parameter.name), "in": .string(parameter.place.rawValue),
            "required": .bool(parameter.isRequired || parameter.place == .path),
            "description": .string(parameter.summary), "schema": parameter.schema, "style": isList ? "form" : nil,
            "explode": isList ? true : nil,
        ]
    }

    // MARK: Answers

    private func answers(_ operation: APIOperation) -> JSONObject {
        var answers = JSONObject()
        for answer in operation.answers { answers[String(answer.status)] = Self.describe(answer) }
        let errors = Set(operation.errors + commonErrors + (operation.needsToken ? [401, 403, 429] : []))
        for status in errors.sorted() where answers[String(status)] == nil {
            let isForLater = status == 429 || status == 503
            answers[String(status)] = Self.describe(
                .json(
                    Self.sentences[status] ?? "Refused.", .schema("Error"),
                    mayHave: isForLater ? ["Retry-After": "Seconds after which to try again."] : [:]))
        }
        return answers
    }

    private static func describe(_ answer: APIAnswer) -> JSONValue {
        var (headers, content) = (JSONObject(), JSONObject())
        for name in answer.headers { headers[name] = ["required": true, "schema": ["type": "string"]] }
        for (name, sentence) in answer.mayHave.sorted(by: { $0.key < $1.key }) {
            headers[name] = ["required": false, "description": .string(sentence), "schema": ["type": "string"]]
        }
        for part in answer.content { content[part.type] = part.schema.map { ["schema": $0] } ?? [:] }
        return [
            "description": .string(answer.summary), "headers": headers.isEmpty ? nil : .object(headers),
            "content": content.isEmpty ? nil : .object(content),
        ]
    }

    private static let sentences = [
        400: "The request is wrong; the sentence says how to put it right. Nothing was done.",
        401: "The credential is missing or not good.",
        403: "The credential has no grant for this, or is not one of this server's API keys.",
        404: "No such project, namespace, version or entity.", 405: "This path answers other methods; see `Allow`.",
        408: "The request did not arrive in time.", 409: "The entity changed meanwhile; read it again.",
        413: "The body is too large.",
        421: "The request names another host. At an edge: only core nodes do this; `details[].addresses` names them.",
        422: "The `Idempotency-Key` stands for another request already. Nothing was done.",
        429: "Too many requests; see `Retry-After`.",
        431: "The request head is too large.", 500: "The outcome is unknown; read before doing it again.",
        501: "The server knows no such method.",
        503: "Nothing was done; try again after `Retry-After`.",
        504: "A cluster's etcd did not say in time whether it was done; a detail has `outcome: unknown`.",
    ]

    private static let errorSchema = JSONValue.objectSchema(
        [
            "error": .objectSchema(
                [
                    "code": ["type": "integer"], "message": ["type": "string"], "status": ["type": "string"],
                    "details": .listSchema(
                        .objectSchema([
                            "@type": ["type": "string"], "reason": ["type": "string"],
                            "outcome": .enumSchema(["not_committed", "unknown"]), "publishId": ["type": "string"],
                            "addresses": .listSchema(["type": "string"]),
                        ])),
                ], required: ["code", "message", "status"])
        ], required: ["error"])
}
