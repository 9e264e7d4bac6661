import StalecastAccess
import StalecastHTTP
import StalecastWire

extension ControlOperations {
    /// The console: its pages, and who is signed in to them.
    static let console: [ControlOperation] = [
        operation(
            "findConsoleFromRoot", "GET", "/", tag: "Console", summary: "Where the console is, for browsers",
            answers: [place], errors: [401, 404, 421], access: .anyone, .call(Call.root)),
        operation(
            "findConsole", "GET", "/console", tag: "Console", summary: "Where the console is", answers: [place],
            errors: [421], access: .anyone, .call(Call.consolePlace)),
        operation(
            "openConsole", "GET", "/console/", tag: "Console", summary: "The console, for browsers",
            answers: [file("text/html")], errors: [421], access: .anyone, .call(Call.consoleFile)),
        operation(
            "consoleFile", "GET", "/console/{file}", tag: "Console", summary: "A part of the console",
            answers: [file("text/javascript", "text/css", "text/html", "image/svg+xml")], errors: [404, 421],
            access: .anyone, .call(Call.consoleFile)),
        operation(
            "makeConsoleCode", "POST", "/console/code", tag: "Console",
            summary: "A code that opens the console once, within a minute, with the caller's own grants",
            parameters: [.header("X-Stalecast-User", "Who will sit there.")],
            answers: [.json("The code", .schema("ConsoleCode"))], errors: [421], action: .read, about: .document,
            .call(Call.makeConsoleCode)),
        operation(
            "openSession", "POST", "/console/session", tag: "Console",
            summary: "Signs in to the console: sets a cookie that stands for the credential",
            body: APIBody(.schema("ConsoleCredential")),
            answers: [.json("Signed in", .schema("ConsoleSession"), headers: ["Set-Cookie"])],
            errors: [400, 401, 403, 421, 429], access: .anyone, .call(Call.openSession)),
        operation(
            "beginSignIn", "POST", "/console/sign-in", tag: "Console",
            summary: "Begins a sign-in with an issuer: sets a cookie, and says where the browser is to go",
            body: APIBody(.schema("ConsoleIssuer")),
            answers: [.json("Where to go", .schema("ConsolePlace"), headers: ["Set-Cookie"])],
            errors: [400, 403, 421, 429, 503], access: .anyone, .call(Call.beginSignIn)),
        operation(
            "endSignIn", "GET", "/console/signed-in/{issuer}", tag: "Console",
            summary: "Takes an issuer's answer from the browser, and leads it to the console",
            parameters: [
                .query("code", "The issuer's code, good once."),
                .query("state", "Names the sign-in that this browser began."),
                .query("iss", "The issuer's name for itself (RFC 9207)."),
                .query("error", "Why the issuer refuses."), .query("error_description", "The same in words."),
            ],
            answers: [
                APIAnswer("Signed in or not, at `/console/`", status: 303, headers: ["Location", "Set-Cookie"])
            ], errors: [404, 421, 503], access: .anyone, .call(Call.endSignIn)),
        operation(
            "readSession", "GET", "/console/session", tag: "Console",
            summary: "Who is signed in to the console, and what they may see there",
            answers: [.json("The person, or none", .schema("ConsoleSession"))], errors: [421], access: .anyone,
            .call(Call.readSession)),
        operation(
            "closeSession", "DELETE", "/console/session", tag: "Console", summary: "Signs out of the console",
            answers: [.json("Signed out", .schema("ConsoleSession"), headers: ["Set-Cookie"])], errors: [403, 421],
            access: .anyone, .call(Call.closeSession)),
    ]

    private static let place = APIAnswer("At `/console/`", status: 308, headers: ["Location"])

    private static func file(_ types: String...) -> APIAnswer {
        APIAnswer(
            "The file", content: types.map { APIAnswer.Content($0) }, headers: ["ETag", "Content-Security-Policy"])
    }

    /// Paths that this listener serves, for a page that may be newer or older than it.
    static let paths: [String] = table.operations.map(\.document.path.text).filter { !$0.contains("{namespace}") }

    static let consoleSchemas: JSONObject = [
        "ConsoleCode": .recordSchema(["code, path, expires": text]),
        "ConsoleCredential": .objectSchema(["code, token, user": text]),
        "ConsoleIssuer": .recordSchema(["issuer": text]),
        "ConsolePlace": .recordSchema(["location": text]),
        "ConsoleSession": .objectSchema(
            [
                "signedIn, mayOperate, mayReadAll": flag, "principal": anyObject,
                "user, expires, version, problem, location": text, "scopes": .listSchema(anyObject),
                "paths": .listSchema(text), "issuers": .listSchema(text),
            ], required: ["signedIn"]),
    ]
}
