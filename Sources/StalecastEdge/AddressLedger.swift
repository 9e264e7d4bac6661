import CLinux
import StalecastAccess
import StalecastHTTP
import Synchronization

/// Counts the connections Edge holds, in all and per address, over all shards and the Front.
package final class AddressLedger: Sendable {
    package enum Admission: Sendable { case admitted, overTotal, overAddress }

    private struct State {
        var total = 0
        var byAddress: [UInt64: Int] = [:]

        /// Counts one more of an address, also where there is no cap yet: a reload may set one while connections are open.
        ///
        /// - Parameter cap: 0 means no cap.
        mutating func isOver(entering address: UInt64, cap: Int) -> Bool {
            guard address != unknown else { return false }
            let held = byAddress[address, default: 0] + 1
            byAddress[address] = held
            return cap > 0 && held > cap
        }

        mutating func left(_ address: UInt64) {
            guard let held = byAddress[address] else { return }
            byAddress[address] = held > 1 ? held - 1 : nil
        }
    }

    private let state = Mutex(State())
    let failures = FailureRates()

    package init() {}

    /// Address of a proxy's connection until its client is known: counts in the total only. No address has this value.
    package static let unknown: UInt64 = 0

    /// Counts a connection in, whatever the answer: a refused one is held until it was told so.
    ///
    /// - Parameter above: so many connections above the cap are leaving.
    package func enter(_ address: UInt64, caps: ConnectionCaps, above: Int = 0) -> Admission {
        state.withLock { state in
            state.total += 1
            let isOver = state.isOver(entering: address, cap: caps.connectionsPerAddress)
            if state.total > caps.connections + above { return .overTotal }
            return isOver ? .overAddress : .admitted
        }
    }

    /// A connection that is counted in turns out to be of another address.
    ///
    /// - Returns: false when that address has too many with it.
    func move(from former: UInt64, to address: UInt64, caps: ConnectionCaps) -> Bool {
        if former == address { return true }
        return state.withLock { state in
            state.left(former)
            return !state.isOver(entering: address, cap: caps.connectionsPerAddress)
        }
    }

    package func leave(_ address: UInt64) {
        state.withLock { state in
            state.total -= 1
            state.left(address)
        }
    }

    /// An address has had as many bad credentials this second as may be. Loopback is not limited: a proxy may be there.
    func isGuessing(_ address: UInt64) -> Bool {
        !stalecast_is_loopback_key(address) && failures.isOver(address, at: stalecast_monotonic_ns())
    }

    /// Counts a bad credential; false when there were too many.
    func mayFail(_ address: UInt64) -> Bool {
        stalecast_is_loopback_key(address) || failures.admits(address, at: stalecast_monotonic_ns())
    }

    /// Counts one whose client did not wait for the answer.
    func countUnanswered(_ denial: Denial?, of address: UInt64) {
        if denial?.status == 401 { _ = mayFail(address) }
    }

    package var total: Int { state.withLock { $0.total } }
}
