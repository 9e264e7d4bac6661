import NIOHTTP1
import StalecastAccess
import StalecastHTTP
import StalecastWire

extension Call {
    /// `POST /console/sign-in` with `{"issuer"}`: sets the flow's cookie, and says where the browser is to go.
    func beginSignIn() async throws(GoogleError) -> Answer {
        guard let name = try JSONBody.parse(body)["issuer"]?.string, let service = control.sessions.signIn,
            service.names.contains(name)
        else {
            throw .invalidField("issuer", "there is no issuer of this name with a clientID in auth.issuers")
        }
        guard let origin = pageOrigin else { throw GoogleError(403, "A sign-in begins on the console's own page.") }
        do throws(SignInFailure) {
            let (location, cookie) = try await service.begin(name, origin: origin, from: limitedAddress)
            var answer = Answer(["location": .string(location)])
            answer.add("Set-Cookie", setting(.flow, cookie, isSecure: origin.hasPrefix("https://")))
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
        answer.add("Location", "/console/")
        let flow = cookie(.flow)
        do throws(SignInFailure) {
            let signedIn = try await service.end(name, query, cookie: flow)
            let principal = signedIn.principal
            guard
                let cookie = control.sessions.open(
                    signedIn.credentials, user: principal.personName, of: principal.actor, farewell: signedIn.farewell)
            else { throw .overRate(principal) }
            note(name, principal, nil)
            answer.add("Set-Cookie", setting(.session, cookie, isSecure: signedIn.isSecure))
            for field in removing(.flow) { answer.add("Set-Cookie", field) }
        } catch {
            // Only with a principal that the issuer has vouched for: a stranger must not be able to fill the log.
            if let principal = error.principal { note(name, principal, error.kind) }
            let isSecure = flow.flatMap(service.flows.read)?.isSecure ?? false
            if let cookie = service.flows.fail(error.sentence) {
                answer.add("Set-Cookie", setting(.problem, cookie, isSecure: isSecure))
            }
        }
        return answer
    }

    /// Address by which sign-ins are counted; nil on loopback, where a proxy may hide many clients.
    private var limitedAddress: String? {
        peer.flatMap { IPAddress($0) }.flatMap { $0.isLoopback ? nil : String($0.key) }
    }

    /// - Parameter failure: nil is a success.
    private func note(_ issuer: String, _ principal: Principal, _ failure: SignInFailure.Kind?) {
        control.audit?.write(
            "console.signIn",
            [
                "actor": .string(principal.actor), "issuer": .string(issuer), "ip": .string(peer ?? ""),
                "outcome": .string(failure == nil ? "ok" : "refused"),
                "user": principal.personName.isEmpty ? nil : .string(principal.personName),
                "reason": failure.map { .string($0.rawValue) },
            ])
    }
}

extension Principal {
    fileprivate var personName: String { name.isEmpty ? email ?? "" : name }
}
