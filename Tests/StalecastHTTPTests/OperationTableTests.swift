import StalecastHTTP
import Testing

@Suite struct OperationTableTests {
    private static func line(_ id: String, _ method: String, _ path: PathTemplate) -> Operation<String> {
        Operation(APIOperation(id, method, path, tag: "", summary: "", answers: []), handler: id)
    }

    private let table = OperationTable([
        line("get", "GET", "/v1/projects/{project}/remoteConfig"),
        line("publish", "PUT", "/v1/projects/{project}/remoteConfig"),
        line("rollback", "POST", "/v1/projects/{project}/remoteConfig:rollback"),
        line("webhook", "GET", "/v1/webhooks/{webhook}"), line("test", "POST", "/v1/webhooks/{webhook}:test"),
    ])

    private func find(_ method: String, _ path: String) throws(GoogleError) -> String {
        switch try table.find(method, path[...]) {
        case .operation(let operation, let names): operation.handler + names["project"] + names["webhook"]
        case .options(let allowed): allowed.joined(separator: ",")
        }
    }

    @Test(arguments: [
        ("GET", "/v1/projects/p/remoteConfig", "getp"), ("HEAD", "/v1/projects/p/remoteConfig", "getp"),
        ("PUT", "/v1/projects/%70/remoteConfig", "publishp"), ("POST", "/v1/webhooks/w:test", "testw"),
        ("POST", "/v1/projects/p/remoteConfig:rollback", "rollbackp"),
        ("POST", "/v1/projects/p/remoteConfig%3Arollback", "rollbackp"), ("GET", "/v1/webhooks/a:b", "webhooka:b"),
        ("OPTIONS", "/v1/projects/p/remoteConfig", "GET,HEAD,PUT,OPTIONS"),
        ("OPTIONS", "/v1/webhooks/w:test", "POST,OPTIONS"), ("OPTIONS", "*", "GET,HEAD,PUT,POST,OPTIONS"),
    ])
    func pathsLeadToTheirLines(method: String, path: String, found: String) throws {
        #expect(try find(method, path) == found)
    }

    @Test(arguments: [
        "", "/", "//", "/v1/projects/p", "/v1/projects/p/remoteConfig/", "/v1/projects/p/remoteConfig:unknown",
        "/v1/projects/p%2FremoteConfig", "/v2/projects/p/remoteConfig", "/v1/projects//remoteConfig", "/v1/webhooks/",
    ])
    func everythingElseIsNotFound(path: String) {
        #expect(throws: GoogleError.notFound("There is nothing at this path; GET /openapi.json lists what there is.")) {
            try find("GET", path)
        }
    }

    @Test(arguments: ["/v1/%", "/v1/%zz/x", "/%00", "/v1/projects/%ff/remoteConfig"])
    func brokenEncodingIsMalformed(path: String) {
        #expect { try find("GET", path) } throws: { ($0 as? GoogleError)?.code == 400 }
    }

    @Test func aWrongMethodNamesTheRightOnes() {
        #expect(throws: GoogleError.methodNotAllowed(["POST", "OPTIONS"])) {
            try find("GET", "/v1/projects/p/remoteConfig:rollback")
        }
    }
}
