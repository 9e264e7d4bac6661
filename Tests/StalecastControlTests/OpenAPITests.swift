import StalecastAccess
import StalecastControl
import StalecastHTTP
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

    @Test func everyDescribedOperationIsServedByItsOwnLine() throws {
        for (method, path, operation) in described {
            guard case .operation(let found, _) = try ControlOperations.table.find(method, Self.filled(path)[...])
            else {
                Issue.record("\(method) \(path) is not served")
                continue
            }
            #expect(found.document.id == operation["operationId"]?.string)
            let asksForToken = operation["security"]?.array?.isEmpty == false
            #expect((found.handler.access != .anyone) == asksForToken, "\(method) \(path)")
        }
    }

    @Test func everyLineIsDescribedOnce() {
        let routed = ControlOperations.table.operations.map { "\($0.document.method) \($0.document.path.text)" }
        #expect(Set(routed).count == routed.count)
        #expect(Set(routed) == Set(described.map { "\($0.method) \($0.path)" }))
        let ids = described.compactMap { $0.operation["operationId"]?.string }
        #expect(Set(ids).count == routed.count)
    }

    /// Client generators drop a whole schema that has a list of nothing in particular.
    @Test func everyListSaysWhatItIsOf() {
        func check(_ value: JSONValue, _ place: String) {
            if value["type"]?.string == "array" { #expect(value["items"] != nil, "\(place)") }
            for (name, member) in value.object?.members ?? [] { check(member, place + "/" + name) }
            for element in value.array ?? [] { check(element, place) }
        }
        check(document, "")
    }

    @Test(arguments: ["", "*", "shop-?", "a.b_c:d~%20", "a b", "ü", String(repeating: "x", count: 256)])
    func theDocumentTakesThePatternsThatGrantsTake(name: String) throws {
        let grant = document["components"]?["schemas"]?["Grant"]?["properties"]
        let pattern = try Regex(try #require(grant?["projects"]?["items"]?["pattern"]?.string))
        #expect((try pattern.wholeMatch(in: name) != nil) == ((try? Glob(ofNames: name)) != nil))
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
