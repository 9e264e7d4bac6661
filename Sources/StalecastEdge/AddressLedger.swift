import Synchronization

/// Counts the connections Edge holds, in all and per address, over all shards and the Front.
package final class AddressLedger: Sendable {
    package enum Admission: Sendable { case admitted, overTotal, overAddress }

    private struct State {
        var total = 0
        var byAddress: [UInt64: Int] = [:]
    }

    private let state = Mutex(State())

    package init() {}

    /// Counts a connection in, whatever the answer: a refused one is held until it was told so.
    package func enter(_ address: UInt64, settings: EdgeSettings) -> Admission {
        state.withLock { state in
            state.total += 1
            var held = 0
            if settings.maxConnectionsPerAddress > 0 {
                held = state.byAddress[address, default: 0] + 1
                state.byAddress[address] = held
            }
            if state.total > settings.maxConnections { return .overTotal }
            return settings.maxConnectionsPerAddress > 0 && held > settings.maxConnectionsPerAddress
                ? .overAddress : .admitted
        }
    }

    package func leave(_ address: UInt64) {
        state.withLock { state in
            state.total -= 1
            guard let held = state.byAddress[address] else { return }
            state.byAddress[address] = held > 1 ? held - 1 : nil
        }
    }

    package var total: Int { state.withLock { $0.total } }
}
