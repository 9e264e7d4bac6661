import Crypto
import Foundation
import StalecastAccess
import StalecastWire
import Synchronization

/// Sign-ins that have begun and not returned from their issuer yet. Each is in a cookie of its browser, sealed with a
/// key of this process, so that strangers cannot fill memory here. A sign-in goes to one issuer, and is valid once.
final class SignInFlows: Sendable {
    static let life: Duration = .seconds(600)
    /// Sign-ins that one address may begin within a minute.
    private static let begunPerMinute = 20
    /// Sign-ins that are remembered as used; the oldest is forgotten, and then the issuer alone refuses its code.
    private static let mostUsed = 4096

    struct Flow: Sendable {
        /// The issuer's configured name.
        let issuer: String
        /// Digest of who the issuer is, and who the daemon is there.
        let party: String
        /// The console's origin, as the browser named it.
        let origin: String
        let state: String
        let nonce: String
        /// Secret behind the challenge (RFC 7636).
        let verifier: String
        let begun: Timestamp

        var redirect: String { "\(origin)/console/signed-in/\(issuer)" }
        var challenge: String { Base64URL.encode(SHA256.hash(data: Data(verifier.utf8))) }
        /// Its page came over TLS, which a proxy may end.
        var isSecure: Bool { origin.hasPrefix("https://") }
    }

    private struct State: Sendable {
        var begun = RecentCounts()
        /// Digests of used states, and in the order of their use.
        var used: Set<SecretDigest> = []
        var order: [SecretDigest] = []
        var oldest = 0

        /// - Returns: false when it is used already.
        mutating func use(_ digest: SecretDigest) -> Bool {
            guard used.insert(digest).inserted else { return false }
            if order.count < mostUsed {
                order.append(digest)
            } else {
                used.remove(order[oldest])
                order[oldest] = digest
                oldest = (oldest + 1) % mostUsed
            }
            return true
        }
    }

    /// Kind of the sealed text; one kind is never accepted as the other.
    private enum Kind: String { case flow, problem }

    private let state = Mutex(State())
    private let key = SymmetricKey(size: .bits256)
    private let secret = SecretMaker(random: { UInt64.random(in: .min ... .max) })

    // MARK: Flows

    /// - Parameter address: nil is not limited.
    /// - Returns: the flow and the value of its cookie; nil when the address begins too many.
    func begin(
        _ issuer: TokenIssuer, _ client: TokenIssuer.SignIn, origin: String, from address: String?
    ) -> (flow: Flow, cookie: String)? {
        let now = Timestamp.now()
        let isOver = state.withLock { state in
            guard let address else { return false }
            // New addresses pass while the table is full: many strangers must not lock people out.
            guard state.begun.hasRoom(for: address, below: Self.begunPerMinute, at: now, orIsFull: true) else {
                return true
            }
            state.begun.count(address, at: now)
            return false
        }
        if isOver { return nil }
        let flow = Flow(
            issuer: issuer.name, party: Self.party(issuer, client), origin: origin, state: secret(), nonce: secret(),
            verifier: secret(), begun: now)
        return sealed(flow.json, .flow).map { (flow, $0) }
    }

    /// The flow of a cookie while it is under way; it may be used.
    func read(_ cookie: String) -> Flow? {
        opened(cookie, .flow).flatMap(Flow.init).flatMap { $0.isUnderWay(at: .now()) ? $0 : nil }
    }

    /// Uses up the flow of a browser; nil unless the browser, the issuer and the state are those of one that was begun.
    func take(_ cookie: String, _ issuer: TokenIssuer, _ client: TokenIssuer.SignIn, state text: String) -> Flow? {
        // After a reload the name may be another issuer's, who must not get the code.
        guard let flow = read(cookie), flow.issuer == issuer.name, flow.party == Self.party(issuer, client),
            SecretDigest(of: flow.state).matches(SecretDigest(of: text)),
            state.withLock({ $0.use(SecretDigest(of: flow.state)) })
        else { return nil }
        return flow
    }

    private static func party(_ issuer: TokenIssuer, _ client: TokenIssuer.SignIn) -> String {
        SecretDigest(of: "\(issuer.issuer)\u{0}\(client.clientID)").hexadecimal
    }

    // MARK: Problems

    /// Cookie that has a sentence for the browser's next page; nil when there is none to be had.
    func fail(_ sentence: String) -> String? { sealed(["text": .string(sentence)], .problem) }

    func problem(_ cookie: String) -> String? { opened(cookie, .problem)?["text"]?.string }

    // MARK: Sealing

    private func sealed(_ object: JSONObject, _ kind: Kind) -> String? {
        let plain = JSONValue.object(object).encoded()
        // Fails for a wrong nonce only.
        let box = try? AES.GCM.seal(plain, using: key, authenticating: Data(kind.rawValue.utf8))
        return (box?.combined).map { Base64URL.encode($0) }
    }

    private func opened(_ cookie: String, _ kind: Kind) -> JSONObject? {
        // A cookie that cannot be opened is from another process, or forged.
        guard let bytes = Base64URL.decode(cookie.utf8), let box = try? AES.GCM.SealedBox(combined: bytes),
            let plain = try? AES.GCM.open(box, using: key, authenticating: Data(kind.rawValue.utf8))
        else { return nil }
        return JSONValue.ifValid(Array(plain), maxDepth: 4)?.object
    }
}

extension SignInFlows.Flow {
    fileprivate var json: JSONObject {
        [
            "issuer": .string(issuer), "party": .string(party), "origin": .string(origin), "state": .string(state),
            "nonce": .string(nonce), "verifier": .string(verifier), "begun": .string(String(begun.microseconds)),
        ]
    }

    fileprivate init?(_ json: JSONObject) {
        guard let issuer = json["issuer"]?.string, let party = json["party"]?.string,
            let origin = json["origin"]?.string, let state = json["state"]?.string, let nonce = json["nonce"]?.string,
            let verifier = json["verifier"]?.string, let begun = json["begun"]?.string.flatMap({ Int64($0) })
        else { return nil }
        self.init(
            issuer: issuer, party: party, origin: origin, state: state, nonce: nonce, verifier: verifier,
            begun: Timestamp(microseconds: begun))
    }

    /// A clock that was set back makes none last longer.
    fileprivate func isUnderWay(at now: Timestamp) -> Bool {
        begun <= now && now < begun.advanced(by: SignInFlows.life)
    }
}
