/// Budget of each address, and of all together, within a period.
struct AddressBudget {
    let perAddress: Int
    let total: Int
    /// Period in tenths of a second.
    let period: UInt32
    private static let maxAddresses = 16_384
    private var counts: [UInt64: Int] = [:]
    private var sum = 0
    private var number: UInt32 = 0

    init(perAddress: Int, total: Int, period: UInt32) {
        (self.perAddress, self.total, self.period) = (perAddress, total, period)
    }

    /// Takes one if there is one.
    ///
    /// - Parameter address: nil has no limit of its own.
    mutating func takes(_ address: UInt64?, at tenths: UInt32) -> Bool {
        if tenths / period != number {
            counts.removeAll(keepingCapacity: true)
            (sum, number) = (0, tenths / period)
        }
        guard sum < total else { return false }
        if let address {
            let count = counts[address] ?? 0
            guard count < perAddress, count > 0 || counts.count < Self.maxAddresses else { return false }
            counts[address] = count + 1
        }
        sum += 1
        return true
    }
}
