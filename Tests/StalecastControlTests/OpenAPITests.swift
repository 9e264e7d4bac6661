import StalecastControl
import StalecastWire
import Testing

@Suite("OpenAPI document")
struct OpenAPITests {
    private let document = ControlDocument.json(version: "1.2.3")

    /// Every operation of the document, as method and path.
    private var described: [(method: String, path: String, operation: JSONValue)] {
        (document["paths"]?.object?.members ?? []).flatMap { path, item in
            (item.object?.members ?? []).map { ($0.key.uppercased(), path, $0.value) }
        }
    }

    @Test func everyDescribedOperationIsRouted() throws {
        for (method, path, operation) in described {
            let route = try RouteParser.route(method: method, path: Self.filled(path))
            let asksForToken = operation["security"]?.array?.isEmpty == false
            #expect(route.needsToken == asksForToken, "\(method) \(path)")
        }
    }

    @Test func everyRouteIsDescribedOnce() {
        let routed = ControlOperation.all.map { "\($0.operation.method) \($0.operation.path.text)" }
        #expect(Set(routed).count == routed.count)
        #expect(Set(routed) == Set(described.map { "\($0.method) \($0.path)" }))
        let ids = described.compactMap { $0.operation["operationId"]?.string }
        #expect(Set(ids).count == routed.count)
    }

    /// Two lines with one route would mean that one of them is served by the other.
    @Test func operationsLeadToDifferentRoutes() throws {
        var seen: [Route: String] = [:]
        for line in ControlOperation.all {
            let path = line.operation.path.filled(["project": "p", "namespace": "n"])
            let route = try RouteParser.route(method: line.operation.method, path: Self.filled(path))
            #expect(seen.updateValue(line.operation.id, forKey: route) == nil, "\(line.operation.id)")
        }
    }

    @Test func everyReferenceIsThere() {
        let text = document.text()
        let schemas = document["components"]?["schemas"]?.object ?? [:]
        for piece in text.split(separator: "#/components/schemas/").dropFirst() {
            let name = String(piece.prefix { $0 != "\"" })
            #expect(schemas[name] != nil, "\(name)")
        }
    }

    @Test func parametersOfAPathAreItsNames() {
        for (_, path, operation) in described {
            let named = (operation["parameters"]?.array ?? []).filter { $0["in"]?.string == "path" }
            let expected = path.split(separator: "{").dropFirst().map { String($0.prefix { $0 != "}" }) }
            #expect(named.compactMap { $0["name"]?.string } == expected)
            #expect(named.allSatisfy { $0["required"]?.bool == true })
        }
    }

    @Test func theDocumentIsServedToTheBearerOfTheToken() async throws {
        try await ControlFixture.serving { fixture in
            let reply = try await fixture.send("GET", "/openapi.json")
            #expect(reply.status == 200)
            #expect(reply.headers["content-type"] == "application/json; charset=utf-8")
            #expect(try JSONValue.parse(reply.body)["openapi"]?.string == "3.1.0")
            #expect(try await fixture.send("GET", "/openapi.json", token: nil).status == 401)
        }
    }

    /// A path with something for every name.
    private static func filled(_ path: String) -> String {
        path.replacing("{project}", with: "demo").replacing(/\{[a-z]+\}/, with: "x1")
    }
}

@Suite("Path template")
struct PathTemplateTests {
    private let test: PathTemplate = "/v1/webhooks/{webhook}:test"

    @Test func aNameTakesWhatItsVerbLeaves() {
        #expect(test.match(["v1", "webhooks", "a:b:test"]) == ["webhook": "a:b"])
        #expect(test.match(["v1", "webhooks", "a"]) == nil)
        #expect(test.match(["v1", "webhooks", ":test"]) == nil)
    }

    @Test func aLongerFixedPathIsMeant() {
        let plain: PathTemplate = "/v1/webhooks/{webhook}"
        #expect(test.literalBytes > plain.literalBytes)
        #expect(plain.match(["v1", "webhooks", "a:test"]) != nil)
        #expect(plain.match(["v1", "webhooks", ""]) == nil)
    }
}
