import NIOCore
import NIOHTTP1
import StalecastAccess
import StalecastHTTP
import StalecastStore
import StalecastWire
import Synchronization

/// One connection of the private listener. The order matters: a stranger's body is never read.
final class ControlConnection: RequestHandler {
    private let control: Control
    private let loop: any EventLoop
    private unowned let connection: HTTPConnection
    private let feeding = Feeding()
    /// Address of the peer, or the one that a PROXY header names.
    private let peer: IPAddress?
    /// Address of the client: the peer, or the one that a trusted peer names.
    private var client: IPAddress?
    /// Decision about the head of the request that is being received, and its time.
    private var judged: (admission: Control.Admission, at: UInt64)?
    /// Nanoseconds for which the decision holds, so that a request whose body comes with its head is checked once.
    private static let judgementHolds: UInt64 = 100_000_000

    init(_ control: Control, _ loop: any EventLoop, _ peer: IPAddress?, _ connection: HTTPConnection) {
        self.peer = peer?.canonical
        client = self.peer
        (self.control, self.loop, self.connection) = (control, loop, connection)
    }

    func admit(_ head: RequestHead) throws(GoogleError) -> Int {
        let proxies = control.configuration.settings.proxies
        if let peer, proxies.trust(peer) {
            client = proxies.client(behind: peer, saying: head.headers[proxies.field.rawValue])
        }
        judged = nil
        let admission = try judge(head)
        judged = (admission, now)
        return admission.maxBodyBytes
    }

    private func judge(_ head: RequestHead) throws(GoogleError) -> Control.Admission {
        do throws(GoogleError) {
            let isGuessing = limitedAddress.map { control.failures.isOver($0, at: now) } ?? false
            let certificate = control.access.takesCertificates ? connection.clientCertificate : nil
            return try control.admit(head, isGuessing: isGuessing, certificate)
        } catch {
            var error = error
            if error.code == 401, let address = limitedAddress, !control.failures.admits(address, at: now) {
                error = .guessing
            }
            control.tally.count("refused", status: error.code)
            throw error
        }
    }

    private var now: UInt64 { NIODeadline.now().uptimeNanoseconds }

    /// The client's address as a number; nil on loopback, where a proxy may hide many clients.
    private var limitedAddress: UInt64? { client.flatMap { $0.isLoopback ? nil : $0.key } }

    func serve(_ request: Request) {
        let admission: Control.Admission
        if let judged, now - judged.at < Self.judgementHolds {
            admission = judged.admission
        } else {
            // Checked again: a body can take hours to arrive, and its credential may expire meanwhile.
            do throws(GoogleError) { admission = try judge(request.head) } catch {
                return connection.answer(error.answer)
            }
        }
        // The task outlives its connection: a commit must not be interrupted. The listener waits for its connections.
        let peer = client?.description
        let writer = admission.isShortPublish(request) ? control.store.takeIdleWriter() : nil
        let prompt = writer == nil ? nil : connection.promptAnswer()
        Task(executorPreference: writer) { [control, loop, connection, feeding] in
            let answer = await control.answer(to: request, admission, peer: peer)
            // Before the client has its answer, so that its next publish finds the writer's queue free.
            writer?.leave()
            control.tally.count(admission.name, status: answer.status)
            guard let events = answer.events, request.head.method != .HEAD else {
                if let prompt { return prompt.write(answer, of: connection, on: loop) }
                return loop.execute { connection.answer(answer) }
            }
            loop.execute {
                if let length = events.length {
                    connection.beginBody(of: answer, length: length)
                } else {
                    connection.beginEvents()
                }
                feeding.begin(events, connection, loop)
            }
        }
    }

    /// The task that writes events; it is cancelled when the client goes or the daemon stops.
    private final class Feeding: Sendable {
        private let task = Mutex<Task<Void, Never>?>(nil)
        private let isOver = Atomic(false)

        func begin(_ events: EventFeed, _ connection: HTTPConnection, _ loop: any EventLoop) {
            let task = Task {
                await events.run { bytes in
                    // A loop that was shut down writes nothing more.
                    (try? await loop.submit { connection.writeEvent(bytes) }.get()) ?? false
                }
                loop.execute { connection.endEvents() }
            }
            self.task.withLock { $0 = task }
            if isOver.load(ordering: .sequentiallyConsistent) { cancel() }
        }

        func cancel() {
            isOver.store(true, ordering: .sequentiallyConsistent)
            task.withLock { $0 }?.cancel()
        }
    }

    func faulted(_ fault: ConnectionFault) { control.tally.count("refused", status: 400) }
    func becameWritable() {}
    func drain() { feeding.cancel() }
    func closed() { feeding.cancel() }
}

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
    /// Whether the request has a field that only browsers send.
    fileprivate var isOfBrowser: Bool { headers.contains(name: "origin") || headers.contains(name: "sec-fetch-site") }
}
