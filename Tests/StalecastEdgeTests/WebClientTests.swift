import StalecastEdge
import StalecastHTTP
import Testing

@Suite struct WebClientTests {
    /// Most bytes of the module as it is served, as gzip.
    private static let budget = 6 * 1024

    @Test func theModuleIsSmallAndWithoutComments() {
        let text = String(decoding: WebClient.file.bytes, as: UTF8.self)
        #expect(WebClient.file.packed.count <= Self.budget, "\(WebClient.file.packed.count) bytes")
        #expect(text.contains("createClient") && !text.contains("\n//") && !text.contains("\n "))
        // A text over two lines would lose what `stripped` takes.
        for line in text.split(separator: "\n") {
            #expect(line.filter { $0 == "`" }.count.isMultiple(of: 2), "a template over two lines: \(line)")
        }
    }

    @Test func whatIsLeftOutIsNoneOfTheProgram() {
        let module = """
            // A comment.
            const a = {
              // Another.
              b: "//", c: `//`,
            };

              f(a,
                2)
            """
        let stripped = String(decoding: WebClient.stripped(module.utf8), as: UTF8.self)
        #expect(stripped == "const a={b:\"//\",c:`//`,};f(a,2)\n")
    }

    @Test(arguments: [
        ("const a = b => c + d;", "const a=b=>c+d;"),
        ("return a || b ? [1, 2] : typeof c;", "return a||b?[1,2]:typeof c;"),
        ("f(\"a = b\", `c  + ${d + e}`, 'x')", "f(\"a = b\",`c  + ${d + e}`,'x')"),
        ("const m = /^([^:/]*):? ?(.*) = /s.exec(line);", "const m=/^([^:/]*):? ?(.*) = /s.exec(line);"),
        ("g(\"\\\" + \", a / b / c)", "g(\"\\\" + \",a/b/c)"), ("if (a in b) await c;", "if(a in b)await c;"),
        ("for (const x of y) z;", "for(const x of y)z;"),
    ])
    func blanksBesideOperatorsAreLeftOut(line: String, tight: String) {
        #expect(String(decoding: WebClient.stripped(line.utf8), as: UTF8.self).filter { $0 != "\n" } == tight)
    }

    @Test(arguments: [true, false])
    func pagesOfAllOriginsMayLoadIt(isGuarded: Bool) async throws {
        func change(_ settings: inout EdgeSettings) {
            settings.allowedOrigins = ["https://shop.example"]
            if isGuarded { settings.apiKeys = ["in-all-apps"] }
        }
        try await LiveEdge.with(engine: true, change) { live in
            func ask(_ headers: String...) throws -> String {
                let client = RawClient(port: live.port)
                client.get("/v1/client/stalecast.js", headers: headers + ["Connection: close"])
                return try client.readToEnd()
            }
            for origin in ["https://shop.example", "https://other.example", "null"] {
                let answer = try ask("Origin: \(origin)")
                #expect(answer.hasPrefix("HTTP/1.1 200 ") && answer.contains("Access-Control-Allow-Origin: *\r\n"))
                #expect(answer.split(separator: "Access-Control-Allow-Origin").count == 2, "browsers refuse two")
                #expect(answer.contains("Content-Type: text/javascript") && answer.contains("createClient"))
            }
            let known = try ask("If-None-Match: \(WebClient.file.etag)")
            #expect(known.hasPrefix("HTTP/1.1 304 ") && known.contains("Cache-Control: public, max-age=300\r\n"))
            #expect(try ask("Accept-Encoding: gzip, br").contains("Content-Encoding: gzip"))
        }
    }
}
