import NIOHTTP1
import StalecastAccess
import StalecastHTTP
import StalecastStore
import StalecastWire

extension Control {
    /// Cookies ignore ports: daemons of one host have names of their own. Over TLS no other host can set it.
    var cookieName: String {
        (configuration.tls == nil ? "" : "__Host-") + "stalecast-" + store.epoch.description.prefix(8)
    }

    /// `Set-Cookie`.
    func cookie(_ value: String, maxAge: Duration) -> String {
        cookie(cookieName, value, maxAge: maxAge, sameSite: "Strict")
    }

    func cookie(_ name: String, _ value: String, maxAge: Duration, sameSite: String) -> String {
        "\(name)=\(value); HttpOnly; SameSite=\(sameSite); Path=/; Max-Age=\(maxAge.components.seconds)"
            + (configuration.tls == nil ? "" : "; Secure")
    }
}

extension Call {
    var browser: BrowserRequest {
        BrowserRequest(head, Credentials(head), cookieName: control.cookieName, control.configuration)
    }

    /// `GET /`: sends browsers to the console; programs get 401 or 404.
    func root() throws(GoogleError) -> Answer {
        let isBrowser = head.headers[canonicalForm: "accept"].contains { $0.hasPrefix("text/html") }
        if isBrowser { return consolePlace() }
        throw principal == nil ? .unauthenticated : .notFound("There is nothing at this path.")
    }

    func consolePlace() -> Answer {
        var answer = Answer(status: 308, contentType: "text/plain; charset=utf-8", body: [])
        answer.add("Location", "/console/")
        return answer
    }

    func consoleFile(named name: String) throws(GoogleError) -> Answer {
        guard let file = ConsoleFiles.all[name] else { throw .notFound("There is nothing at this path.") }
        return ConsoleFiles.answer(file, to: head)
    }

    /// `POST /console/code`: `{"code","path","expires"}`, for who has a credential of their own.
    func makeConsoleCode() throws(GoogleError) -> Answer {
        let credentials = Credentials(head)
        // A session that makes sessions would never end.
        if credentials.isEmpty { throw .forbidden }
        let code = control.sessions.makeCode(
            for: credentials, user: updateUser.name.isEmpty ? updateUser.email : updateUser.name)
        return Answer([
            "code": .string(code), "path": .string("/console/#code=\(code)"),
            "expires": .string(Timestamp.now().advanced(by: ConsoleSessions.codeLife).description),
        ])
    }

    /// `POST /console/session` with `{"code"}` or `{"token"}`: sets the cookie.
    func openSession() throws(GoogleError) -> Answer {
        let (address, origin) = (peer ?? "", signInAddress)
        guard control.sessions.mayTry(origin) else {
            throw GoogleError(429, "Too many wrong codes and tokens from this address; wait a minute.")
                .with("Retry-After", "60")
        }
        let json = try JSONBody.parse(body)
        var opened: (credentials: Credentials, user: String)?
        if let code = json["code"]?.string {
            opened = control.sessions.take(code: code)
        } else if let token = json["token"]?.string {
            var credentials = Credentials()
            credentials.authorization = "Bearer \(token)"
            opened = (
                credentials, json["user"]?.string.map { String(decoding: $0.utf8.prefix(256), as: UTF8.self) } ?? ""
            )
        } else {
            throw .invalidField("code", "the body needs a code of `stalecast console`, or a token")
        }
        guard let opened, let principal = try? control.access.admit(opened.credentials, at: .control),
            principal.maySomewhere(.read)
        else {
            control.sessions.failed(origin)
            control.access.count(.unknown, at: .control, isEnforced: true, Credentials(), of: "/console/session")
            throw .notSignedIn
        }
        if let audit = control.audit, !audit.hasRoom() { throw .auditIsFull }
        guard let cookie = control.sessions.open(opened.credentials, user: opened.user, of: principal.actor) else {
            throw GoogleError(429, "Too many sign-ins with this credential; wait a minute.").with("Retry-After", "60")
        }
        var members: JSONObject = ["actor": .string(principal.actor), "ip": .string(address), "outcome": "ok"]
        if !opened.user.isEmpty { members["user"] = .string(opened.user) }
        control.audit?.write("console.signIn", members)
        var answer = describe(control.sessions.session(cookie), principal)
        answer.add("Set-Cookie", control.cookie(cookie, maxAge: ConsoleSessions.life))
        return answer
    }

    /// Address that sign-ins are counted by. An IPv6 client has a whole /64 to try from.
    var signInAddress: String { peer.flatMap { IPAddress($0) }.map { String($0.key) } ?? peer ?? "" }

    /// `GET /console/session`: who is signed in and what they may see; for strangers `{"signedIn":false}`, and the
    /// issuers that they can sign in with.
    func readSession() -> Answer { describe(browser.cookie.flatMap(control.sessions.session), principal) }

    /// `DELETE /console/session`. With `location` the browser is to go there, which ends the session at the issuer too.
    func closeSession() -> Answer {
        var object: JSONObject = ["signedIn": false]
        object["location"] = browser.cookie.flatMap { control.sessions.close($0) }.map(JSONValue.string)
        var answer = Answer(.object(object))
        answer.add("Set-Cookie", control.cookie("", maxAge: .zero))
        return answer
    }

    private func describe(_ session: ConsoleSessions.Session?, _ principal: Principal?) -> Answer {
        guard let principal else {
            var object: JSONObject = ["signedIn": false]
            let issuers = control.sessions.signIn?.names ?? []
            if !issuers.isEmpty { object["issuers"] = .array(issuers.map(JSONValue.string)) }
            object["problem"] = signInProblem.map(JSONValue.string)
            return Answer(.object(object))
        }
        var object: JSONObject = [
            "signedIn": true, "version": .string(control.configuration.version),
            "principal": [
                "kind": .string(principal.kind.rawValue), "actor": .string(principal.actor),
                "id": .string(principal.id), "name": .string(principal.name),
            ],
            "mayOperate": .bool(principal.mayEverywhere(.operate)), "mayReadAll": .bool(principal.mayEverywhere(.read)),
            "scopes": .array(scopes(of: principal)),
            "paths": .array(ControlOperations.paths.map(JSONValue.string)),
        ]
        if let session {
            object["user"] = .string(session.user)
            object["expires"] = .string(min(session.ends, principal.expiresAt ?? session.ends).description)
        }
        return Answer(.object(object))
    }

    /// Scopes that may be read, each with the other actions that are permitted there.
    private func scopes(of principal: Principal) -> [JSONValue] {
        control.store.projects.projects.flatMap { project in
            (control.namespaces[project.id] ?? []).compactMap { namespace in
                let scope = Scope(project: project.id, namespace: namespace)
                guard principal.may(.read, in: scope) else { return nil }
                let actions = [AccessAction.publish, .manage].filter { principal.may($0, in: scope) }
                var object: JSONObject = [
                    "project": .string(project.id.description), "number": .string(String(project.number)),
                    "namespace": .string(namespace.description),
                    "actions": .array(actions.map { .string($0.rawValue) }),
                ]
                // Topics and webhooks are of all of a project.
                object["wholeProject"] = .bool(control.may(principal, .read, project: project.id.description))
                object["needsApproval"] = .bool(needsApproval(project.id))
                object["fedBy"] = control.feeds[scope].map(JSONValue.string)
                return .object(object)
            }
        }
    }
}

extension GoogleError {
    fileprivate static let notSignedIn = GoogleError(
        401,
        "That code or token opens nothing. A code is good once and for a minute: `stalecast console` makes another."
    ).with("WWW-Authenticate", "Bearer realm=\"stalecast\"")
}
