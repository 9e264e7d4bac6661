package import StalecastTemplate
import Synchronization

/// The outcomes of a version by what its conditions read of a fetch: fetches that say the same are evaluated once.
///  A client chooses what it says, so the table is bounded: 1,024 keys of 512 bytes. When it is full it begins anew,
/// which costs each of those that come again one evaluation.
package final class KnownOutcomes: Sendable {
    private static let maxKeys = 1024
    private static let maxKeyBytes = 512

    /// nil where no two fetches have one outcome for sure.
    private let inputs: [ConditionInput]?
    private let outcomes = Mutex<[[UInt8]: ConditionOutcome]>([:])

    /// - Parameter inputs: of ``CompiledTemplate/inputs``.
    package init(_ inputs: [ConditionInput]?) {
        // A name beyond ASCII may be equal to one within: Swift compares texts by canonical equivalence, a key bytes.
        let isPlain = inputs?.allSatisfy { input in
            switch input {
            case .userProperty(let name), .customSignal(let name): name.utf8.allSatisfy { $0 < 0x80 }
            default: true
            }
        }
        self.inputs = isPlain == true ? inputs : nil
    }

    /// nil for a fetch that is evaluated by itself.
    package func key(of scan: FetchScan) -> [UInt8]? {
        guard let inputs else { return nil }
        var key: [UInt8] = []
        key.reserveCapacity(64)
        return scan.appendKey(of: inputs, most: Self.maxKeyBytes, to: &key) ? key : nil
    }

    func outcome(of key: [UInt8]) -> ConditionOutcome? { outcomes.withLock { $0[key] } }

    func keep(_ outcome: ConditionOutcome, of key: [UInt8]) {
        outcomes.withLock { outcomes in
            if outcomes.count >= Self.maxKeys { outcomes.removeAll() }
            outcomes[key] = outcome
        }
    }
}
