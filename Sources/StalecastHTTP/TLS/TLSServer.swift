package import NIOSSL
import Synchronization

/// The TLS of one listener: its certificates, which can be replaced while connections stand, and what became of the
/// handshakes.
package final class TLSServer: Sendable {
    /// Certificates that a listener shows, and those that it asks for.
    package struct Material: Sendable {
        /// The first is for clients that name none of the others; at least one.
        package var identities: [TLSIdentity]
        /// Authorities of the clients' certificates; empty asks for none.
        package var clientAuthorities: [NIOSSLCertificate] = []
        /// False lets clients without a certificate in. Default true; without authorities it means nothing.
        package var requiresClientCertificate = true
        /// False takes TLS 1.2 as well, with forward secrecy and AEAD only. Default false.
        package var isTLS13Only = false

        package init(_ identities: [TLSIdentity]) {
            precondition(!identities.isEmpty, "a TLS listener has a certificate")
            self.identities = identities
        }
    }

    /// Outcome of a TLS listener's handshake; the words of the metric.
    package enum Outcome: String, Sendable, CaseIterable {
        case completed, failed
        /// Handshake that was not over when the head should have arrived.
        case timedOut = "timed_out"
        /// Handshake that stood half-done while others waited for its place.
        case displaced
        case plain
        case overRate = "over_rate"
    }

    private struct State {
        var material: Material
        var context: TLSContext
        var outcomes: [Outcome: Int] = [:]
        var rates = ArrivalRates()
    }

    private let state: Mutex<State>

    package init(_ material: Material) throws(TLSProblem) {
        state = Mutex(State(material: material, context: try TLSContext(material)))
    }

    /// Gives the material to new connections from now on; open ones keep theirs.
    ///
    /// - Throws: ``TLSProblem``; then nothing has changed.
    package func replace(_ material: Material) throws(TLSProblem) {
        let context = try TLSContext(material)
        state.withLock {
            $0.material = material
            $0.context = context
        }
    }

    package var material: Material { state.withLock { $0.material } }
    package var outcomes: [Outcome: Int] { state.withLock { $0.outcomes } }

    func count(_ outcome: Outcome) { state.withLock { $0.outcomes[outcome, default: 0] += 1 } }

    /// Whether one more connection from an address may begin a handshake this second; counts it, and the refusal.
    ///
    /// - Parameter limit: connections a second from one address; 0 is no limit.
    package func admits(_ address: UInt64, limit: Int, at now: UInt64) -> Bool {
        guard limit > 0 else { return true }
        return state.withLock { state in
            if state.rates.admits(address, limit: limit, at: now) { return true }
            state.outcomes[.overRate, default: 0] += 1
            return false
        }
    }

    /// The end of a new connection's pipeline where records come in.
    func handler() throws(TLSProblem) -> TLSHandler { try TLSHandler(state.withLock { $0.context }) }
}

/// Connections by address within the current second.
package struct ArrivalRates: Sendable {
    private var second: UInt64 = 0
    private var counts: [UInt64: Int] = [:]

    package init() {}

    /// Counts one, and tells whether it is among the first `limit` of its second. `now`: nanoseconds, monotonic.
    package mutating func admits(_ address: UInt64, limit: Int, at now: UInt64) -> Bool {
        if now / 1_000_000_000 != second {
            second = now / 1_000_000_000
            counts.removeAll(keepingCapacity: true)
        }
        let count = counts[address, default: 0]
        guard count < limit else { return false }
        counts[address] = count + 1
        return true
    }

    func count(of address: UInt64, at now: UInt64) -> Int {
        now / 1_000_000_000 == second ? counts[address, default: 0] : 0
    }
}
