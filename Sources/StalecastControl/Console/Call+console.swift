import NIOHTTP1
import StalecastAccess
import StalecastHTTP
import StalecastStore
import StalecastWire

extension Control {
    /// Names of a cookie, the one that is believed first. Over TLS of our own only the first is: no other host can set it.
    func cookieNames(_ kind: ConsoleCookie) -> [String] {
        [true, false].filter { $0 || configuration.tls == nil }.map { cookieName(kind, isSecure: $0) }
    }

    /// Cookies ignore ports: daemons of one host have names of their own.
    fileprivate func cookieName(_ kind: ConsoleCookie, isSecure: Bool) -> String {
        "\(isSecure ? "__Host-" : "")stalecast-\(store.epoch.description.prefix(8))\(kind.rawValue)"
    }
}

/// Cookies of the console; raw values end their names.
enum ConsoleCookie: String {
    case session = ""
    /// A sign-in with an issuer that is under way.
    case flow = "-sign-in"
    /// Sentence about a sign-in that failed.
    case problem = "-problem"

    /// The issuer's page sends the browser back here, so what is needed then is Lax.
    fileprivate var sameSite: String { self == .session ? "Strict" : "Lax" }
    fileprivate var life: Duration { self == .session ? ConsoleSessions.life : SignInFlows.life }
}

extension Call {
    var browser: BrowserRequest {
        BrowserRequest(
            head, Credentials(head), cookieNames: control.cookieNames(.session), control.configuration)
    }

    func cookie(_ kind: ConsoleCookie) -> String? { BrowserRequest.cookie(named: control.cookieNames(kind), head) }

    /// `Set-Cookie`.
    ///
    /// - Parameter isSecure: the page came over TLS, which a proxy may have ended.
    func setting(_ kind: ConsoleCookie, _ value: String, isSecure: Bool) -> String {
        let isSecure = isSecure || control.configuration.tls != nil
        return "\(control.cookieName(kind, isSecure: isSecure))=\(value)\(attributes(kind, kind.life, isSecure))"
    }

    /// Each `Set-Cookie` that removes it; the one of this listener where the browser has none.
    func removing(_ kind: ConsoleCookie) -> [String] {
        let sent = [true, false].filter { isSecure in
            BrowserRequest.cookie(named: [control.cookieName(kind, isSecure: isSecure)], head) != nil
        }
        return (sent.isEmpty ? [control.configuration.tls != nil] : sent).map { isSecure in
            "\(control.cookieName(kind, isSecure: isSecure))=\(attributes(kind, .zero, isSecure))"
        }
    }

    private func attributes(_ kind: ConsoleCookie, _ life: Duration, _ isSecure: Bool) -> String {
        "; HttpOnly; SameSite=\(kind.sameSite); Path=/; Max-Age=\(life.components.seconds)\(isSecure ? "; Secure" : "")"
    }

    /// Origin of our own page that sent this, as browsers name it with each POST; its host is the one that was checked.
    var pageOrigin: String? {
        let (origins, host) = (head.headers[canonicalForm: "origin"], (head.headers.first(name: "host") ?? ""))
        guard origins.count == 1, let origin = origins.first?.lowercased() else { return nil }
        return ["http://", "https://"].contains { origin == $0 + host.lowercased() } ? origin : nil
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

    func consoleFile() throws(GoogleError) -> Answer {
        let name = names["file"]
        guard let file = ConsoleFiles.all[name.isEmpty ? "index.html" : name] else {
            throw .notFound("There is nothing at this path.")
        }
        return ConsoleFiles.answer(file, to: head)
    }

    /// `POST /console/code`: `{"code","path","expires"}`, for a caller with a credential of its own.
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
        // Refused: signed out.
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
        let isSecure = pageOrigin?.hasPrefix("https://") ?? false
        answer.add("Set-Cookie", setting(.session, cookie, isSecure: isSecure))
        return answer
    }

    /// Address that sign-ins are counted by. An IPv6 client has a whole /64 to try from.
    var signInAddress: String { peer.flatMap { IPAddress($0) }.map { String($0.key) } ?? peer ?? "" }

    /// `GET /console/session`: who is signed in and what they may see; for strangers `{"signedIn":false}`, and the
    /// issuers that they can sign in with.
    func readSession() -> Answer {
        var answer = describe(browser.cookie.flatMap(control.sessions.session), principal)
        // It is said once.
        if cookie(.problem) != nil { removing(.problem).forEach { answer.add("Set-Cookie", $0) } }
        return answer
    }

    /// `DELETE /console/session`. With `location` the browser is to go there, which ends the session at the issuer too.
    func closeSession() -> Answer {
        let location = browser.cookie.flatMap { control.sessions.close($0) }
        var answer = Answer(["signedIn": false, "location": location.map(JSONValue.string)])
        for field in removing(.session) { answer.add("Set-Cookie", field) }
        return answer
    }

    private func describe(_ session: ConsoleSessions.Session?, _ principal: Principal?) -> Answer {
        guard let principal else {
            let issuers = control.sessions.signIn?.names ?? []
            let problem = cookie(.problem).flatMap { control.sessions.signIn?.flows.problem($0) }
            return Answer([
                "signedIn": false, "issuers": issuers.isEmpty ? nil : .texts(issuers),
                "problem": problem.map(JSONValue.string),
            ])
        }
        return Answer([
            "signedIn": true, "version": .string(control.configuration.version),
            "principal": [
                "kind": .string(principal.kind.rawValue), "actor": .string(principal.actor),
                "id": .string(principal.id), "name": .string(principal.name),
            ],
            "mayOperate": .bool(principal.mayEverywhere(.operate)), "mayReadAll": .bool(principal.mayEverywhere(.read)),
            "scopes": .array(scopes(of: principal)),
            "paths": .texts(ControlOperations.paths),
            "user": session.map { .string($0.user) },
            "expires": session.map { .string(min($0.ends, principal.expiresAt ?? $0.ends).description) },
        ])
    }

    /// Scopes that may be read, each with the other actions that are permitted there.
    private func scopes(of principal: Principal) -> [JSONValue] {
        control.store.projects.projects.flatMap { project in
            (control.configuration.projects.namespaces[project.id] ?? []).compactMap { namespace in
                let scope = Scope(project: project.id, namespace: namespace)
                guard principal.may(.read, in: scope) else { return nil }
                let actions = [AccessAction.publish, .manage].filter { principal.may($0, in: scope) }
                return [
                    "project": .string(project.id.description), "number": .string(String(project.number)),
                    "namespace": .string(namespace.description),
                    "actions": .array(actions.map { .string($0.rawValue) }),
                    // Topics and webhooks are of all of a project.
                    "wholeProject": .bool(control.may(principal, .read, project: project.id.description)),
                    "needsApproval": .bool(needsApproval(project.id)),
                    "fedBy": control.configuration.projects.feeds[scope].map(JSONValue.string),
                ]
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
