import NIOHTTP1
import StalecastAccess
import StalecastHTTP

/// Sender of a request, as its credentials show it.
struct Caller {
    private let outcome: Result<Principal, Denial>
    private let credentials: Credentials
    private let path: String
    private let access: Authorizer
    /// Session of the console; nil for a request with a credential of its own, and for strangers.
    let session: ConsoleSessions.Session?

    /// - Parameter isGuessing: too many bad credentials came from the client's address, so no signature is checked.
    /// - Throws: 421 and 403 for a browser's request that no page of the console made.
    init(
        _ head: RequestHead, _ control: Control, isGuessing: Bool, _ certificate: ClientCertificate?
    ) throws(GoogleError) {
        var own = Credentials(head)
        // A browser sends its certificate with the requests of any page, so it proves nothing about the page.
        if !head.isOfBrowser { own.certificate = certificate }
        path = String(head.path)
        access = control.access
        let browser = BrowserRequest(head, own, cookieNames: control.cookieNames(.session), control.configuration)
        try browser.check(isStranger: own.isEmpty)
        session = browser.cookie.flatMap(control.sessions.session)
        credentials = session?.credentials ?? own
        if isGuessing, access.unknownToken(in: credentials) != nil {
            outcome = .failure(.overRate)
            return
        }
        do throws(Denial) { outcome = .success(try access.admit(credentials, at: .control)) } catch {
            outcome = .failure(error)
        }
    }

    /// nil when no caller is known.
    var principal: Principal? { try? outcome.get() }  // why not is said by known()

    /// - Throws: what to answer to a stranger.
    func known() throws(GoogleError) -> Principal {
        do throws(Denial) { return try outcome.get() } catch { throw refused(error) }
    }

    /// Counts a refusal. The reason is for log and metric: there is one answer for all that have a status.
    func refused(_ reason: Denial) -> GoogleError {
        access.count(reason, at: .control, isEnforced: true, credentials, of: path)
        switch reason.status {
        case 400: return .ambiguousCredentials
        case 403: return .forbidden
        case 429: return .guessing
        case 503: return .credentialNotReady
        default: return .unauthenticated
        }
    }
}

extension RequestHead {
    /// It has a field that browsers alone send.
    fileprivate var isOfBrowser: Bool { headers.contains(name: "origin") || headers.contains(name: "sec-fetch-site") }
}
