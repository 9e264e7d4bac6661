import NIOHTTP1
import StalecastAccess
import StalecastHTTP
import StalecastWire

extension Control {
    /// Name of the cookie of a sign-in with an issuer that is under way.
    fileprivate var flowCookieName: String { cookieName + "-sign-in" }

    /// `Set-Cookie`. Lax: the issuer's page sends the browser back here.
    fileprivate func flowCookie(_ value: String, maxAge: Duration) -> String {
        cookie(flowCookieName, value, maxAge: maxAge, sameSite: "Lax")
    }
}

extension Call {
    private var flowCookie: String? { BrowserRequest.cookie(named: control.flowCookieName, head) }

    /// `POST /console/sign-in` with `{"issuer"}`: sets the flow's cookie, and says where the browser is to go.
    func beginSignIn() async throws(GoogleError) -> Answer {
        guard let name = try JSONBody.parse(body)["issuer"]?.string, let service = control.sessions.signIn,
            service.names.contains(name)
        else {
            throw .invalidField("issuer", "there is no issuer of this name with a clientID in auth.issuers")
        }
        let origin = try pageOrigin()
        do throws(SignInFailure) {
            let (location, cookie) = try await service.begin(name, origin: origin, from: signInAddress)
            var answer = Answer(["location": .string(location)])
            answer.add("Set-Cookie", control.flowCookie(cookie, maxAge: SignInFlows.life))
            return answer
        } catch {
            throw GoogleError(error.kind == .overRate ? 429 : 503, error.sentence).with("Retry-After", "60")
        }
    }

    /// `GET /console/signed-in/{issuer}`: takes the issuer's answer, and leads to the console's page in any case.
    func endSignIn() async throws(GoogleError) -> Answer {
        let name = names["issuer"]
        guard let service = control.sessions.signIn, service.names.contains(name) else {
            throw .notFound("There is nothing at this path.")
        }
        if let audit = control.audit, !audit.hasRoom() { throw .auditIsFull }
        var answer = Answer(status: 303, contentType: "text/plain; charset=utf-8", body: [])
        answer.add("Referrer-Policy", "no-referrer")
        do throws(SignInFailure) {
            let signedIn = try await service.end(name, query, cookie: flowCookie)
            let principal = signedIn.principal
            let user = principal.name.isEmpty ? principal.email ?? "" : principal.name
            guard
                let cookie = control.sessions.open(
                    signedIn.credentials, user: user, of: principal.actor, farewell: signedIn.farewell)
            else { throw .overRate }
            note(name, principal.actor, user, "ok")
            answer.add("Set-Cookie", control.cookie(cookie, maxAge: ConsoleSessions.life))
            answer.add("Set-Cookie", control.flowCookie("", maxAge: .zero))
            answer.add("Location", "/console/")
        } catch {
            // A stranger could write the log full.
            if error.kind != .foreign { note(name, "stranger", "", error.kind.rawValue) }
            let cookie = service.flows.fail(flowCookie, error.sentence)
            answer.add("Set-Cookie", control.flowCookie(cookie, maxAge: SignInFlows.life))
            answer.add("Location", "/console/")
        }
        return answer
    }

    /// Sentence about this browser's sign-in that failed; once.
    var signInProblem: String? { flowCookie.flatMap { control.sessions.signIn?.flows.problem($0) } }

    private func note(_ issuer: String, _ actor: String, _ user: String, _ outcome: String) {
        var members: JSONObject = [
            "actor": .string(actor), "issuer": .string(issuer), "ip": .string(peer ?? ""),
            "outcome": .string(outcome == "ok" ? "ok" : "refused"),
        ]
        if !user.isEmpty { members["user"] = .string(user) }
        if outcome != "ok" { members["reason"] = .string(outcome) }
        control.audit?.write("console.signIn", members)
    }

    /// The origin of the page that asks. Browsers send it with each POST; its host is the one that was checked.
    ///
    /// - Throws: 403 for another origin's page, and for what is no page.
    private func pageOrigin() throws(GoogleError) -> String {
        let (origins, host) = (head.headers[canonicalForm: "origin"], (head.headers.first(name: "host") ?? ""))
        guard origins.count == 1, let origin = origins.first.map({ String($0).lowercased() }),
            ["http://", "https://"].contains(where: { origin == $0 + host.lowercased() })
        else {
            throw GoogleError(403, "A sign-in begins on the console's own page.")
        }
        return origin
    }
}
