import StalecastControl
import Testing

@Suite("Route parser")
struct RouteParserTests {
    private let scope = ScopeSpelling(project: "demo")

    @Test(arguments: [
        ("GET", "/v1/projects/demo/remoteConfig", Route.TemplateAction.get),
        ("HEAD", "/v1/projects/demo/remoteConfig", .get),
        ("PUT", "/v1/projects/demo/remoteConfig", .publish),
        ("GET", "/v1/projects/demo/remoteConfig:listVersions", .listVersions),
        ("POST", "/v1/projects/demo/remoteConfig:rollback", .rollback),
        ("POST", "/v1/projects/demo/remoteConfig%3Arollback", .rollback),
        ("GET", "/v1/projects/demo/remoteConfig%3adownloadDefaults", .downloadDefaults),
        ("POST", "/v1/projects/demo/remoteConfig:evaluate", .evaluate),
    ])
    func templatePathsAreUnderstood(method: String, path: String, action: Route.TemplateAction) throws {
        #expect(try RouteParser.route(method: method, path: path) == .template(scope, action))
    }

    @Test func namespacedPathsHaveTheSameVerbs() throws {
        let server = ScopeSpelling(project: "123", namespace: "firebase-server")
        let base = "/v1/projects/123/namespaces/firebase-server/remoteConfig"
        #expect(try RouteParser.route(method: "PUT", path: base) == .template(server, .publish))
        #expect(try RouteParser.route(method: "GET", path: base + ":listVersions") == .template(server, .listVersions))
        #expect(try RouteParser.route(method: "POST", path: base + ":rollback") == .template(server, .rollback))
    }

    @Test func otherPathsAreUnderstood() throws {
        let send = "/v1/projects/demo/messages:send"
        #expect(try RouteParser.route(method: "POST", path: send) == .sendMessage(project: "demo"))
        #expect(try RouteParser.route(method: "GET", path: "/v1/projects/demo/topics") == .topics(project: "demo"))
        #expect(try RouteParser.route(method: "GET", path: "/healthz") == .health)
        #expect(try RouteParser.route(method: "GET", path: "/readyz") == .readiness)
        #expect(try RouteParser.route(method: "GET", path: "/metrics") == .metrics)
        #expect(try RouteParser.route(method: "GET", path: "/status") == .status)
    }

    @Test func aWrongMethodNamesTheRightOnes() {
        #expect(throws: RouteError.methodNotAllowed(allow: ["GET", "HEAD", "PUT"])) {
            try RouteParser.route(method: "DELETE", path: "/v1/projects/demo/remoteConfig")
        }
        #expect(throws: RouteError.methodNotAllowed(allow: ["POST"])) {
            try RouteParser.route(method: "GET", path: "/v1/projects/demo/remoteConfig:rollback")
        }
    }

    @Test(arguments: [
        "", "/", "//", "/v1/projects/demo", "/v1/projects/demo/remoteConfig/", "/v1/projects/demo/remoteConfig:unknown",
        "/v1/projects/demo%2FremoteConfig", "/v2/projects/demo/remoteConfig", "/v1/projects/../remoteConfigs",
        "v1/projects/demo/remoteConfig", "/v1/projects/demo/namespaces/firebase/topics",
    ])
    func everythingElseIsNotFound(path: String) {
        #expect(throws: RouteError.notFound) { try RouteParser.route(method: "GET", path: path) }
    }

    @Test(arguments: ["/v1/%", "/v1/%zz/x", "/%00", "/v1/projects/%ff/remoteConfig", "/v1/projects/a%0/topics"])
    func brokenEncodingIsMalformed(path: String) {
        #expect(throws: RouteError.malformed) { try RouteParser.route(method: "GET", path: path) }
    }

    @Test func queryNamesMayBeSnakeOrCamelCase() throws {
        let query = QueryParameters(
            "validate_only=true&page_size=3&$alt=json%3Benum-encoding%3Dint&endVersionNumber=9&x")
        #expect(try query.flag("validateOnly"))
        #expect(try query.integer("pageSize") == 3)
        #expect(try query.versionNumber("endVersionNumber") == 9)
        #expect(query["versionNumber"] == nil)
    }

    @Test func plusAndPercentInAQueryAreDecoded() {
        #expect(QueryParameters("a=b+c%2Bd")["a"] == "b c+d")
    }

    @Test(arguments: ["validateOnly=yes", "versionNumber=0", "versionNumber=-1", "versionNumber=x", "startTime=today"])
    func aWrongQueryValueIsAnInvalidArgument(text: String) {
        let query = QueryParameters(text)
        #expect {
            _ = try query.flag("validateOnly")
            _ = try query.versionNumber("versionNumber")
            _ = try query.timestamp("startTime")
        } throws: { ($0 as? GoogleError)?.code == 400 }
    }
}
